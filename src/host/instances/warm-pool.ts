// Ready-made instances: created ahead of demand per image, so that making a sandbox claims one instead of starting one.
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "../../core/log.ts";
import { type Loop, startLoop } from "../../core/loop.ts";
import type { ResolvedImage } from "../images/images.ts";
import type { GuestConnection } from "./guest-slot.ts";
import type { InstanceRecord } from "./record.ts";

/** An instance nobody owns yet: its init answers, its limits are still the smallest. */
export type WarmInstance = { record: InstanceRecord; dir: string; guest: GuestConnection };

export type WarmPoolOptions = {
  /** Instances kept per wanted image. */
  size: number;
  log: Logger;
  make: (image: ResolvedImage, signal: AbortSignal) => Promise<WarmInstance>;
  destroy: (instance: WarmInstance) => Promise<void>;
  /** Images that always keep warm instances; asked at every filling, so that one which appears later is met. */
  always: () => ResolvedImage[];
};

/** Images besides the configured ones that keep warm instances: the most recently asked for. */
const recentImagesMax = 4;
const recentImageMs = 10 * 60_000;
const makeTimeoutMs = 60_000;
const makeAttemptsMax = 3;

export class WarmPool implements AsyncDisposable {
  readonly #options: WarmPoolOptions;
  readonly #ready: WarmInstance[] = [];
  /** Keyed by digest, because one image has many names; the oldest wish first. */
  readonly #recent = new Map<string, { image: ResolvedImage; askedAtMs: number }>();
  readonly #loop: Loop;
  #closed = false;

  constructor(options: WarmPoolOptions) {
    this.#options = options;
    this.#loop = startLoop({
      name: "warm-pool",
      intervalMs: 30_000,
      log: options.log,
      work: (signal) => this.#fill(signal),
    });
  }

  /** Gives away a warm instance of exactly that image content, or undefined; the pool refills behind the caller. */
  take(image: ResolvedImage): WarmInstance | undefined {
    this.#want(image);
    const index = this.#ready.findIndex(({ record }) => record.image.digest === image.digest);
    this.poke();
    return index < 0 ? undefined : this.#ready.splice(index, 1)[0];
  }

  /** Takes a found instance back in after a restart; what exceeds the size leaves at the next filling. */
  put(instance: WarmInstance): void {
    this.#ready.push(instance);
  }

  /** Drops an instance whose init is gone. */
  drop(id: string): WarmInstance | undefined {
    const index = this.#ready.findIndex(({ record }) => record.id === id);
    this.poke();
    return index < 0 ? undefined : this.#ready.splice(index, 1)[0];
  }

  count(digest: string): number {
    return this.#ready.filter(({ record }) => record.image.digest === digest).length;
  }

  poke(): void {
    // A request in progress goes first: filling starts when the event loop has served it.
    if (!this.#closed) setTimeout(() => this.#loop.poke(), 5).unref();
  }

  /** Resolves when every wanted image has its instances. */
  async filled(): Promise<void> {
    await this.#loop.run();
  }

  #want(image: ResolvedImage): void {
    this.#recent.delete(image.digest);
    this.#recent.set(image.digest, { image, askedAtMs: Date.now() });
    if (this.#recent.size > recentImagesMax) this.#recent.delete(this.#recent.keys().next().value as string);
  }

  #wanted(): ResolvedImage[] {
    if (this.#options.size === 0) return [];
    const wanted = new Map(this.#options.always().map((image) => [image.digest, image]));
    for (const [digest, { image, askedAtMs }] of this.#recent) {
      if (Date.now() - askedAtMs > recentImageMs) this.#recent.delete(digest);
      else wanted.set(digest, image);
    }
    return [...wanted.values()];
  }

  async #fill(signal: AbortSignal): Promise<void> {
    const wanted = this.#wanted();
    const room = new Map(wanted.map(({ digest }) => [digest, this.#options.size]));
    for (const instance of [...this.#ready]) {
      const left = room.get(instance.record.image.digest) ?? 0;
      room.set(instance.record.image.digest, left - 1);
      if (left > 0) continue;
      if (this.drop(instance.record.id) !== undefined) await this.#options.destroy(instance);
    }
    for (const image of wanted) await this.#fillImage(image, signal);
  }

  async #fillImage(image: ResolvedImage, signal: AbortSignal): Promise<void> {
    const { size, make, destroy, log } = this.#options;
    for (let failures = 0; this.count(image.digest) < size && failures < makeAttemptsMax && !signal.aborted; ) {
      try {
        const made = await make(image, AbortSignal.any([signal, AbortSignal.timeout(makeTimeoutMs)]));
        if (signal.aborted) await destroy(made);
        else this.#ready.push(made);
      } catch (error) {
        failures++;
        if (!signal.aborted) log.warn({ image: image.name, err: error }, "warm instance could not be made");
        await sleep(200 * failures, undefined, { signal }).catch(() => undefined);
      }
    }
  }

  /** Stops filling and lets go of the warm instances, which stay for the next start. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await this.#loop[Symbol.asyncDispose]();
    await Promise.all(this.#ready.splice(0).map(({ guest }) => guest[Symbol.asyncDispose]()));
  }
}
