// A host that tells which image each new instance was made from.
import type { Host, InstanceRequest } from "../../contract/host.ts";

/** The rest of the host is the host's own. */
export function watchHost(host: Host, onCreated: (request: InstanceRequest) => Promise<void>): Host {
  const createInstance: Host["createInstance"] = async (request, options) => {
    await host.createInstance(request, options);
    await onCreated(request);
  };
  return new Proxy(host, {
    get(target, property) {
      if (property === "createInstance") return createInstance;
      const member: unknown = Reflect.get(target, property, target);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
}
