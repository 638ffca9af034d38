// Lets users of one thing go one after the other, in the order they came.
import { AppError } from "../../core/errors.ts";

const waitingMax = 256;
const waitMs = 60_000;

export class Turns {
  #last: Promise<void> = Promise.resolve();
  #count = 0;

  /** Resolves when everybody before is done; rejects when that takes too long, too many wait, or the signal aborts. */
  async take(signal: AbortSignal): Promise<Disposable> {
    if (this.#count > waitingMax) throw new AppError("rate_limited", "Too many writes to this process wait already.");
    const before = this.#last;
    const done = Promise.withResolvers<void>();
    this.#last = before.then(() => done.promise);
    this.#count += 1;
    const release = (): void => {
      this.#count -= 1;
      done.resolve();
    };
    const deadline = new AppError("unavailable", "Another write to this process takes too long.");
    const given = Promise.withResolvers<never>();
    const timer = setTimeout(() => given.reject(deadline), waitMs);
    const onAbort = (): void => given.reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      signal.throwIfAborted();
      await Promise.race([before, given.promise]);
    } catch (error) {
      release();
      throw error;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
    }
    let isHeld = true;
    return {
      [Symbol.dispose]: () => {
        if (isHeld) release();
        isHeld = false;
      },
    };
  }
}
