// What becomes of a sandbox whose host has lost its instance, and of one whose instance is found again.
import type { Logger } from "../../core/log.ts";
import type { SandboxStore } from "./store.ts";

export function createLosses({ store, log }: { store: SandboxStore; log: Logger }) {
  return {
    async fail(id: string): Promise<void> {
      const message = "The host has lost the instance";
      const lost = { code: "INSTANCE_LOST", fatal: true, instance: id, message, time: new Date().toISOString() };
      if (await store.changeStatus(id, { from: ["DEPLOYED"], to: "FAILED", message, errors: [lost] })) {
        log.error({ instanceId: id }, "the host has lost an instance");
      }
    },

    /** Somebody has mended the host. Had the name been taken meanwhile, the sandbox would not be FAILED any more. */
    async takeBack(id: string): Promise<void> {
      const message = "The host has found the instance again";
      if (await store.changeStatus(id, { from: ["FAILED"], to: "DEPLOYED", message, errors: [] })) {
        log.warn({ instanceId: id }, "the host has found an instance again");
      }
    },
  };
}
