// Ready-made instances: created ahead of demand per image, so that making a sandbox claims one instead of starting one.
import { Backoff } from "../../core/backoff.ts";
import { BoundedMap } from "../../core/bounded-map.ts";
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
/** After an instance could not be made or died unused, until one is taken. */
const pause = { firstMs: 500, maxMs: 60_000 };

export class WarmPool implements AsyncDisposable {
  readonly #options: WarmPoolOptions;
  readonly #ready: WarmInstance[] = [];
  /** Keyed by digest, because one image has many names; the oldest wish first. */
  readonly #recent = new Map<string, { image: ResolvedImage; askedAtMs: number }>();
  /** Images whose instances fail, by digest. */
  readonly #failing = new BoundedMap<string, Backoff>(64);
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
    const taken = this.#remove(({ record }) => record.image.digest === image.digest);
    if (taken !== undefined) this.#failing.delete(image.digest);
    this.poke();
    return taken;
  }

  /** Takes a found instance back in after a restart; what exceeds the size leaves at the next filling. */
  put(instance: WarmInstance): void {
    this.#ready.push(instance);
  }

  /** Drops an instance whose init is gone. */
  lost(id: string): WarmInstance | undefined {
    const lost = this.#remove(({ record }) => record.id === id);
    if (lost !== undefined) this.#failed(lost.record.image);
    return lost;
  }

  count(digest: string): number {
    return this.#ready.filter(({ record }) => record.image.digest === digest).length;
  }

  /** Whether warm instances of the image are there, or are wanted by the configuration. */
  usesImage(digest: string): boolean {
    return this.count(digest) > 0 || this.#options.always().some((image) => image.digest === digest);
  }

  /** Keeps no more warm instances of an image that is to go, until somebody asks for it again. */
  async forget(digest: string): Promise<void> {
    this.#recent.delete(digest);
    for (;;) {
      const instance = this.#remove(({ record }) => record.image.digest === digest);
      if (instance === undefined) return;
      await this.#options.destroy(instance);
    }
  }

  poke(): void {
    // A request in progress goes first: filling starts when the event loop has served it.
    this.#pokeIn(5);
  }

  /** Resolves when every wanted image has its instances, or could not get them. */
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
      if (this.#remove((one) => one === instance) !== undefined) await this.#options.destroy(instance);
    }
    for (const image of wanted) await this.#fillImage(image, signal);
  }

  async #fillImage(image: ResolvedImage, signal: AbortSignal): Promise<void> {
    const { size, make, destroy, log } = this.#options;
    const isPausing = (): boolean => (this.#failing.get(image.digest)?.remainingMs ?? 0) > 0;
    while (this.count(image.digest) < size && !isPausing() && !signal.aborted) {
      try {
        const made = await make(image, AbortSignal.any([signal, AbortSignal.timeout(makeTimeoutMs)]));
        if (signal.aborted) await destroy(made);
        else this.#ready.push(made);
      } catch (error) {
        if (signal.aborted) return;
        log.warn({ image: image.name, err: error }, "warm instance could not be made");
        this.#failed(image);
      }
    }
  }

  #failed({ digest }: ResolvedImage): void {
    const backoff = this.#failing.get(digest) ?? new Backoff(pause);
    this.#failing.set(digest, backoff);
    backoff.failed();
    // Timers are counted in whole milliseconds and may come a little early.
    this.#pokeIn(Math.ceil(backoff.remainingMs) + 1);
  }

  #remove(isIt: (instance: WarmInstance) => boolean): WarmInstance | undefined {
    const index = this.#ready.findIndex(isIt);
    return index < 0 ? undefined : this.#ready.splice(index, 1)[0];
  }

  #pokeIn(delayMs: number): void {
    if (!this.#closed) setTimeout(() => this.#loop.poke(), delayMs).unref();
  }

  /** Stops filling and lets go of the warm instances, which stay for the next start. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await this.#loop[Symbol.asyncDispose]();
    await Promise.all(this.#ready.splice(0).map(({ guest }) => guest[Symbol.asyncDispose]()));
  }
}
