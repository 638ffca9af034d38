// Keeps a process from running away from a client that follows its output: what outruns the journal would be lost to that client.

/** Bytes that a follower may be behind; a journal always holds more. */
export const lagMaxBytes = 2 * 1024 * 1024;

export type Follower = Disposable & {
  /** Tells that so many more bytes were handed on. */
  advance(bytes: number): void;
};

export class Pace {
  readonly #delivered = new Map<Follower, number>();
  #waiting: (() => void)[] = [];

  /** Follows from the first byte on, until disposed. */
  follow(): Follower {
    const follower: Follower = {
      advance: (bytes) => {
        const before = this.#delivered.get(follower);
        if (before !== undefined) this.#delivered.set(follower, before + bytes);
        this.#wake();
      },
      [Symbol.dispose]: () => {
        this.#delivered.delete(follower);
        this.#wake();
      },
    };
    this.#delivered.set(follower, 0);
    return follower;
  }

  /** Resolves once no follower is too far behind the given count of bytes. */
  async keep(writtenBytes: number): Promise<void> {
    while ([...this.#delivered.values()].some((bytes) => writtenBytes - bytes > lagMaxBytes)) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  /** Where the follower is that is behind most; infinite without one. */
  slowest(): number {
    return Math.min(...this.#delivered.values());
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}
