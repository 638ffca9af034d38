// Puts idle instances to sleep, and wakes those whose open connections go on: one timer looks at all of them, because a timer per
// instance would cost more than it tells.
import type { Logger } from "../../core/log.ts";
import { type Loop, startLoop } from "../../core/loop.ts";
import type { Instance } from "./instance.ts";

/** Freezes at once this many at most; a freeze waits for the kernel, not for the processor. */
const freezesAtOnceMax = 16;

export function startStandby(options: {
  instances: () => Iterable<Instance>;
  idleTimeoutMs: number;
  log: Logger;
}): Loop {
  const { instances, idleTimeoutMs, log } = options;
  return startLoop({
    name: "standby",
    intervalMs: Math.min(1_000, Math.max(50, Math.floor(idleTimeoutMs / 5))),
    log,
    work: async (signal) => {
      const idle: Instance[] = [];
      for (const instance of instances()) {
        instance.look();
        if (instance.isIdle(idleTimeoutMs)) idle.push(instance);
      }
      for (let next = 0; next < idle.length && !signal.aborted; next += freezesAtOnceMax) {
        await Promise.all(idle.slice(next, next + freezesAtOnceMax).map((instance) => instance.sleep(idleTimeoutMs)));
      }
    },
  });
}
