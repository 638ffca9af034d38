// Looks after inits that stopped answering while requests wait on them: one timer for all instances in use.
import type { Logger } from "../../core/log.ts";
import { type Loop, startLoop } from "../../core/loop.ts";
import type { Instance } from "./instance.ts";

const intervalMs = 5_000;

/** Costs an instance in use one empty message and its answer; one that nobody uses, nothing. */
export function startPulse(options: { instances: () => Iterable<Instance>; log: Logger }): Loop {
  const { instances, log } = options;
  return startLoop({
    name: "pulse",
    intervalMs,
    log,
    // Not awaited: one that does not answer must not keep the others from being asked.
    work: async () => {
      for (const instance of instances()) {
        instance.feelPulse().catch((error: unknown) => log.error({ err: error }, "pulse not felt"));
      }
    },
  });
}
