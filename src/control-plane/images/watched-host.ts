// A host that tells which image each new instance was made from.
import type { Host, InstanceRequest } from "../../contract/host.ts";

/** The rest of the host is the host's own: an object of functions that need no `this`. */
export function watchHost(host: Host, onCreated: (request: InstanceRequest) => Promise<void>): Host {
  return {
    ...host,
    async createInstance(request, options) {
      await host.createInstance(request, options);
      await onCreated(request);
    },
  };
}
