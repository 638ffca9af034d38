// Lets searches through all sandboxes of a workspace run one at a time, and few of each workspace wait: none starves the others.
import { setImmediate as nextTurn } from "node:timers/promises";
import { AppError } from "../../core/errors.ts";

/** Running and waiting, in one workspace. */
const scansMax = 4;

export class Scans {
  readonly #pending = new Map<string, number>();
  #last: Promise<unknown> = Promise.resolve();

  /** Rejects with `rate_limited` when the workspace has its most searches under way. */
  async run<Result>(workspaceId: string, scan: () => Promise<Result>): Promise<Result> {
    const pending = this.#pending.get(workspaceId) ?? 0;
    if (pending >= scansMax) {
      throw new AppError("rate_limited", "Too many searches of this workspace are under way; try again.");
    }
    this.#pending.set(workspaceId, pending + 1);
    const before = this.#last;
    const running = before.catch(() => undefined).then(scan);
    this.#last = running.catch(() => undefined);
    try {
      return await running;
    } finally {
      const left = (this.#pending.get(workspaceId) ?? 1) - 1;
      if (left === 0) this.#pending.delete(workspaceId);
      else this.#pending.set(workspaceId, left);
    }
  }
}

/** Between two slices of a scan: whatever else waits goes first. */
export async function yieldTurn(): Promise<void> {
  await nextTurn();
}
