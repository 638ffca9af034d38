// A limit on how many of something run at once; the others wait their turn, for a bounded time and in a bounded queue.
import { AppError } from "../../core/errors.ts";
import { type Deferred, deferWithDeadline } from "./deadline.ts";

export type SlotLimits = {
  slots: number;
  waitingMax: number;
  waitMs: number;
  /** What somebody is told who does not get one. */
  refusal: string;
};

export class Slots {
  readonly #limits: SlotLimits;
  readonly #waiting = new Set<Deferred<void>>();
  #free: number;

  constructor(limits: SlotLimits) {
    this.#limits = limits;
    this.#free = limits.slots;
  }

  /** A slot, which its disposal gives back; `rate_limited` when none becomes free. */
  async take(signal?: AbortSignal): Promise<Disposable> {
    signal?.throwIfAborted();
    if (this.#free > 0) this.#free--;
    else await this.#wait(signal);
    let isTaken = true;
    return {
      [Symbol.dispose]: () => {
        if (isTaken) this.#giveBack();
        isTaken = false;
      },
    };
  }

  async #wait(signal: AbortSignal | undefined): Promise<void> {
    const tooMany = new AppError("rate_limited", this.#limits.refusal);
    if (this.#waiting.size >= this.#limits.waitingMax) throw tooMany;
    const turn = deferWithDeadline<void>({ timeoutMs: this.#limits.waitMs, signal, what: "A free place" });
    this.#waiting.add(turn);
    try {
      await turn.promise;
    } catch (error) {
      throw error instanceof AppError && error.code === "timeout" ? tooMany : error;
    } finally {
      this.#waiting.delete(turn);
    }
  }

  /** To who has waited longest and still does. */
  #giveBack(): void {
    for (const next of this.#waiting) {
      this.#waiting.delete(next);
      if (next.resolve()) return;
    }
    this.#free++;
  }
}
