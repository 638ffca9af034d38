// Removes archives that no version needs: of deleted templates and versions, and of uploads that a crash cut off before they counted.
import type { Logger } from "../../core/log.ts";

export type SweepOptions = {
  listKeys: () => Promise<string[]>;
  /** Those that a version needs. */
  listOwned: (keys: readonly string[]) => Promise<Set<string>>;
  /** Whether somebody is about to make a version need it. */
  isUnderWay: (key: string) => boolean;
  remove: (key: string) => Promise<void>;
  log: Logger;
};

const chunk = 200;

/** Safe to repeat, and to abandon half-way. */
export function createSweep({ listKeys, listOwned, isUnderWay, remove, log }: SweepOptions) {
  return async (signal: AbortSignal): Promise<void> => {
    // What is under way is told apart before the owners are asked: an upload that ends in between is owned by then.
    const keys = (await listKeys()).filter((key) => !isUnderWay(key));
    for (let at = 0; at < keys.length && !signal.aborted; at += chunk) {
      const some = keys.slice(at, at + chunk);
      const owned = await listOwned(some);
      for (const key of some) {
        if (owned.has(key) || signal.aborted) continue;
        await remove(key);
        log.info({ object: key }, "an archive without a version was removed");
      }
    }
  };
}
