// Which contents are needed right now by instances that no record names yet: what is held is not removed.
export class ImageHolds {
  readonly #held = new Map<string, number>();
  #lately = new Set<string>();

  hold(digest: string): Disposable {
    this.#lately.add(digest);
    this.#held.set(digest, (this.#held.get(digest) ?? 0) + 1);
    let isHeld = true;
    return {
      [Symbol.dispose]: () => {
        if (!isHeld) return;
        isHeld = false;
        // Not at once: what was made with it is registered in the steps that follow.
        setImmediate(() => this.#release(digest));
      },
    };
  }

  #release(digest: string): void {
    const left = (this.#held.get(digest) ?? 1) - 1;
    if (left === 0) this.#held.delete(digest);
    else this.#held.set(digest, left);
  }

  /** What was held since the last time this was asked. */
  takeLately(): ReadonlySet<string> {
    const lately = this.#lately;
    this.#lately = new Set();
    return lately;
  }

  has(digest: string): boolean {
    return this.#held.has(digest);
  }
}
