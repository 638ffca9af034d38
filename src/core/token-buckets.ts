// Token buckets by key: each lets a burst through and then so many a second.

export type BucketLimits = { perSecond: number; burst: number };

type Bucket = { tokens: number; at: number };

/** Beyond this many keys, full buckets are forgotten first, then the ones unused for longest. */
const keysMax = 20_000;

export class TokenBuckets {
  readonly #limits: BucketLimits;
  readonly #now: () => number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(limits: BucketLimits, now: () => number = () => performance.now()) {
    this.#limits = limits;
    this.#now = now;
  }

  /** Takes one token: 0, or the milliseconds until there is one again. */
  take(key: string): number {
    const bucket = this.#fill(key);
    if (bucket.tokens >= 1) {
      bucket.tokens -= 1;
      return 0;
    }
    return Math.ceil(((1 - bucket.tokens) / this.#limits.perSecond) * 1_000);
  }

  /** Undoes a `take`: what it was taken for turned out to be welcome. */
  giveBack(key: string): void {
    const bucket = this.#fill(key);
    bucket.tokens = Math.min(this.#limits.burst, bucket.tokens + 1);
  }

  #fill(key: string): Bucket {
    const { perSecond, burst } = this.#limits;
    const now = this.#now();
    const found = this.#buckets.get(key);
    if (found === undefined) {
      if (this.#buckets.size >= keysMax) this.#forget(now);
      const bucket = { tokens: burst, at: now };
      this.#buckets.set(key, bucket);
      return bucket;
    }
    found.tokens = Math.min(burst, found.tokens + ((now - found.at) / 1_000) * perSecond);
    found.at = now;
    return found;
  }

  #forget(now: number): void {
    const { perSecond, burst } = this.#limits;
    for (const [key, { tokens, at }] of this.#buckets) {
      if (tokens + ((now - at) / 1_000) * perSecond >= burst) this.#buckets.delete(key);
    }
    if (this.#buckets.size < keysMax) return;
    const oldest = [...this.#buckets].sort(([, a], [, b]) => a.at - b.at).slice(0, keysMax / 10);
    for (const [key] of oldest) this.#buckets.delete(key);
  }
}
