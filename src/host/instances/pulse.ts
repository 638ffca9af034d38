// Looks after inits that stopped answering while somebody uses their instances: one timer for all of them.
import { toAppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import { type Loop, startLoop } from "../../core/loop.ts";
import type { Driver } from "../drivers/driver.ts";
import type { Instance } from "./instance.ts";

const intervalMs = 5_000;
const answerTimeoutMs = 5_000;

/** Costs an instance in use one empty message and its answer; one that nobody uses, nothing. */
export function startPulse(options: { instances: () => Iterable<Instance>; driver: Driver; log: Logger }): Loop {
  const { instances, driver, log } = options;
  const asked = new Set<Instance>();
  return startLoop({
    name: "pulse",
    intervalMs,
    log,
    // Not awaited: one that does not answer must not keep the others from being asked.
    work: async () => {
      for (const instance of instances()) {
        if (asked.has(instance) || !instance.usage.isPresent || !instance.isReady()) continue;
        asked.add(instance);
        feelPulse(instance, { driver, log })
          .catch((error: unknown) => log.error({ err: error }, "pulse not felt"))
          .finally(() => asked.delete(instance));
      }
    },
  });
}

/**
 * Asks the init for a sign of life. One that was stopped from outside goes on; one that is slow, or hangs, is left alone: nobody can
 * tell these apart, and a restart would end whatever runs.
 */
async function feelPulse(instance: Instance, { driver, log }: { driver: Driver; log: Logger }): Promise<void> {
  const { id } = instance.record;
  try {
    await instance.guest.ping({ timeoutMs: answerTimeoutMs });
  } catch (error) {
    if (toAppError(error).code !== "timeout" || instance.state !== "awake") return;
    const wasStopped = driver.rouse(id);
    if (wasStopped)
      instance.failures.add(
        "INIT_STOPPED",
        "The sandbox's init was stopped from outside; it goes on, nothing is lost.",
      );
    else log.warn({ instance: id, err: error }, "the init does not answer");
  }
}
