// Work on the caller's names and patterns takes as long as the caller wants it to: everybody else on this host gets a turn in between, by the clock.
import { setImmediate } from "node:timers/promises";

const turnMs = 8;

export class Turn {
  #sinceMs = performance.now();

  get isOver(): boolean {
    return performance.now() - this.#sinceMs > turnMs;
  }

  /** Lets the others go first. */
  async next(signal: AbortSignal): Promise<void> {
    await setImmediate();
    signal.throwIfAborted();
    this.#sinceMs = performance.now();
  }
}
