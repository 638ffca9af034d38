// Bounds the memory that requests together take for content which has to stand in it whole: JSON bodies and log texts.
import type { ServerResponse } from "node:http";
import { AppError } from "../core/errors.ts";

export type BudgetOptions = {
  totalBytes: number;
  waitingMax: number;
  waitMs: number;
  /** What is taken here is taken there too. */
  parent?: MemoryBudget;
};

/** Content below this is not worth counting. */
const countedMinBytes = 256 * 1024;
/** A client that sends or reads more slowly than this gives its place to others. */
const holdMaxMs = 60_000;

type Waiter = { bytes: number; start: () => void };

export class MemoryBudget {
  readonly #options: BudgetOptions;
  readonly #waiting: Waiter[] = [];
  #freeBytes: number;

  constructor(options: BudgetOptions) {
    this.#options = options;
    this.#freeBytes = options.totalBytes;
  }

  /** Waits its turn, first come first served; more than everything counts as everything. `unavailable` when it takes too long. */
  async take(wantedBytes: number): Promise<Disposable> {
    const bytes = Math.min(wantedBytes, this.#options.totalBytes);
    if (this.#waiting.length > 0 || bytes > this.#freeBytes) await this.#wait(bytes);
    else this.#freeBytes -= bytes;
    let isTaken = true;
    const giveBack = (): void => {
      if (isTaken) this.#giveBack(bytes);
      isTaken = false;
    };
    try {
      const parents = await this.#options.parent?.take(bytes);
      return {
        [Symbol.dispose]: () => {
          giveBack();
          parents?.[Symbol.dispose]();
        },
      };
    } catch (error) {
      giveBack();
      throw error;
    }
  }

  /** Whether this much is free right now, here and above. */
  hasFree(bytes: number): boolean {
    const isFree = this.#waiting.length === 0 && Math.min(bytes, this.#options.totalBytes) <= this.#freeBytes;
    return isFree && (this.#options.parent?.hasFree(bytes) ?? true);
  }

  /** Takes what large content of an answer's request or body costs, until the answer is over. */
  async takeFor(response: ServerResponse, wantedBytes: number): Promise<void> {
    if (wantedBytes < countedMinBytes) return;
    const taken = await this.take(wantedBytes);
    const giveBack = (): void => {
      clearTimeout(timer);
      taken[Symbol.dispose]();
    };
    const timer = setTimeout(giveBack, holdMaxMs);
    timer.unref();
    response.once("close", giveBack);
    if (response.destroyed) giveBack();
  }

  #wait(bytes: number): Promise<void> {
    const busy = new AppError("unavailable", "Too much large content is being handled right now; try again.");
    if (this.#waiting.length >= this.#options.waitingMax) return Promise.reject(busy);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        reject(busy);
        this.#startWaiting();
      }, this.#options.waitMs);
      const waiter: Waiter = {
        bytes,
        start: () => {
          clearTimeout(timer);
          resolve();
        },
      };
      this.#waiting.push(waiter);
    });
  }

  #giveBack(bytes: number): void {
    this.#freeBytes += bytes;
    this.#startWaiting();
  }

  #startWaiting(): void {
    while (this.#waiting.length > 0 && this.#waiting[0]!.bytes <= this.#freeBytes) {
      const waiter = this.#waiting.shift()!;
      this.#freeBytes -= waiter.bytes;
      waiter.start();
    }
  }
}
