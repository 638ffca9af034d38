// Bounds of copying a directory, and the queue that works through its files.
import { CliFailure } from "../failure.ts";

export const entriesMax = 200_000;
export const depthMax = 100;
const filesInFlightMax = 6;

/** Counts entries and says when a directory is too much to copy file by file. */
export function checkBounds(entryCount: number, depth: number, path: string): void {
  if (entryCount > entriesMax) {
    throw new CliFailure("failure", `${path} has more than ${entriesMax} entries.`, {
      remedy: "Pack it with tar and copy the archive.",
    });
  }
  if (depth > depthMax) throw new CliFailure("failure", `${path} is more than ${depthMax} directories deep.`);
}

/** Does `work` for each item, some at a time; returns or throws once none is running any more. */
export async function forEachInFlight<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  let next = 0;
  let failed = false;
  const workers = Array.from({ length: Math.min(filesInFlightMax, items.length) }, async () => {
    while (next < items.length && !failed) {
      try {
        await work(items[next++]!);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  });
  const [failure] = (await Promise.allSettled(workers)).filter((result) => result.status === "rejected");
  if (failure !== undefined) throw failure.reason;
}
