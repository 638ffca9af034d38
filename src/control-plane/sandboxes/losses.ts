// What becomes of a sandbox whose host has lost its instance, and of one whose instance is found again.
import type { InfrastructureError } from "../../contract/host.ts";
import type { Logger } from "../../core/log.ts";
import { isUniqueViolation } from "../db/unique-violation.ts";
import { forgiveFailures, mergeFailures } from "./failures.ts";
import type { OwnedInstances, SandboxStore } from "./store.ts";

export function createLosses({ store, log }: { store: SandboxStore; log: Logger }) {
  return {
    /** Nothing happens when another instance serves the sandbox by now. */
    async fail({ id, instanceId }: OwnedInstances): Promise<void> {
      const message = "The host has lost the instance";
      const time = new Date().toISOString();
      const lost = { code: "INSTANCE_LOST", fatal: true, instance: instanceId, message, time };
      const record = await store.findById(id);
      const errors = mergeFailures(record?.errors ?? [], [lost]);
      if (await store.changeStatus(id, { from: ["DEPLOYED"], to: "FAILED", message, errors, instanceId })) {
        log.error({ instanceId }, "the host has lost an instance");
      }
    },

    /** A reader that merges both lists sees no difference. */
    async keep({ id, instanceId }: OwnedInstances, reported: readonly InfrastructureError[]): Promise<void> {
      const record = await store.findById(id);
      if (record === undefined || record.instanceId !== instanceId) return;
      const errors = mergeFailures(record.errors, reported);
      if (errors !== record.errors) await store.recordFailures(record, errors);
    },

    /** Somebody has mended the host. Had the name been taken meanwhile, the sandbox would not be FAILED any more. */
    async takeBack({ id, instanceId }: OwnedInstances): Promise<void> {
      const message = "The host has found the instance again";
      const record = await store.findById(id);
      const errors = forgiveFailures(record?.errors ?? []);
      const change = { from: ["FAILED"], to: "DEPLOYED", message, errors, instanceId } as const;
      const changed = await store.changeStatus(id, change).catch((error: unknown) => {
        // Somebody takes the name at this moment, and the failed sandbox with it.
        if (isUniqueViolation(error)) return false;
        throw error;
      });
      if (changed) log.warn({ instanceId }, "the host has found an instance again");
    },
  };
}
