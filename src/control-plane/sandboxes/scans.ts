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

const rowsMin = 100;

/** How many rows a slice has, so that it takes about as long as others may wait: rows that come from the disk take longer. */
export class SlicePace {
  readonly #targetMs: number;
  readonly #rowsMax: number;
  rows: number;

  constructor({ targetMs, rowsMax }: { targetMs: number; rowsMax: number }) {
    this.#targetMs = targetMs;
    this.#rowsMax = rowsMax;
    this.rows = Math.max(rowsMin, Math.round(rowsMax / 4));
  }

  took(ms: number): void {
    if (ms > this.#targetMs) this.rows = Math.max(rowsMin, Math.round(this.rows / 2));
    else if (ms < this.#targetMs / 2) this.rows = Math.min(this.#rowsMax, Math.round(this.rows * 1.5));
  }
}
