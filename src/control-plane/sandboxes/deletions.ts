// Asks the host to delete instances: several at once, none twice at once, with a deadline for each.
import type { Host } from "../../contract/host.ts";
import type { Logger } from "../../core/log.ts";

const deletionsAtOnce = 4;
/** How long a pass waits for one deletion; a slow one goes on by itself and a later pass confirms it. */
const deletionTimeoutMs = 5_000;

/** Resolves when every instance is gone or its time is over; `done` is told of each that is gone. */
export type DeleteInstances = (
  ids: readonly string[],
  signal: AbortSignal,
  done: (id: string) => Promise<unknown>,
) => Promise<void>;

export function createDeletions({ host, log }: { host: Host; log: Logger }): DeleteInstances {
  const deleting = new Map<string, Promise<boolean>>();

  const deleteInstance = (id: string): Promise<boolean> => {
    const running = deleting.get(id);
    if (running !== undefined) return running;
    const deletion = host
      .deleteInstance(id)
      .then(
        () => true,
        (error: unknown) => {
          log.error({ instanceId: id, err: error }, "an instance could not be deleted; it is tried again");
          return false;
        },
      )
      .finally(() => deleting.delete(id));
    deleting.set(id, deletion);
    return deletion;
  };

  return async (ids, signal, done) => {
    const queue = [...ids];
    const worker = async (): Promise<void> => {
      for (let id = queue.shift(); id !== undefined && !signal.aborted; id = queue.shift()) {
        if (await withDeadline(deleteInstance(id), deletionTimeoutMs, signal)) await done(id);
      }
    };
    await Promise.all(Array.from({ length: deletionsAtOnce }, worker));
  };
}

/** False when the time is over or the pass ends; the work goes on. */
async function withDeadline(work: Promise<boolean>, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const giveUp = (): void => resolve(false);
  const timer = setTimeout(giveUp, timeoutMs);
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", giveUp);
  }
}
