// Images from registries: what a reference means here, when the registry is asked again, and the pulls under way, which callers share.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { BoundedMap } from "../../core/bounded-map.ts";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import { PullFailure } from "./copy-from-registry.ts";
import type { ImageEntry, ResolvedImage } from "./images.ts";
import { type PullOptions, pullImage } from "./pull.ts";
import type { ImageReference } from "./reference.ts";
import { ReferenceRecords } from "./reference-records.ts";
import { removeAbandonedWorkDirs } from "./work-dirs.ts";

type PulledImagesOptions = Omit<PullOptions, "signal" | "onPhase" | "copyTimeoutMs" | "copyRetries"> & { log: Logger };

const recheckAfterMs = 5 * 60_000;
const recheckPatience = { copyTimeoutMs: 10_000, copyRetries: 0 };
const firstPatience = { copyTimeoutMs: 600_000, copyRetries: 1 };
const pullsAtOnceMax = 2;
const pullsWaitingMax = 32;

export class PulledImages implements AsyncDisposable {
  readonly #options: PulledImagesOptions;
  readonly #records: ReferenceRecords;
  /** When the registry was last asked what a reference means, or could not be. */
  readonly #askedAtMs = new BoundedMap<string, number>(10_000);
  readonly #pulls = new Map<string, Promise<ResolvedImage>>();
  readonly #waiting: (() => void)[] = [];
  readonly #stop = new AbortController();
  #running = 0;

  constructor(options: PulledImagesOptions) {
    this.#options = options;
    this.#records = new ReferenceRecords(options.imageDir, options.idRangeStart);
  }

  /** Reads what is here and removes what a dead process left half-made. */
  async open(): Promise<void> {
    const pullsDir = join(this.#options.imageDir, "pulls");
    for (const dir of ["work", "blobs/sha256"]) mkdirSync(join(pullsDir, dir), { recursive: true, mode: 0o700 });
    await removeAbandonedWorkDirs(join(pullsDir, "work"), this.#options.log);
    this.#records.load(this.#options.log);
  }

  find(reference: ImageReference): ResolvedImage | undefined {
    return this.#records.find(reference.text);
  }

  names(): string[] {
    return this.#records.names();
  }

  describe(reference: ImageReference): ImageEntry | undefined {
    return this.#records.describe(reference.text);
  }

  /** Whether a name other than this one stands for the content. */
  usesBesides(reference: ImageReference, digest: string): boolean {
    return this.#records.names().some((name) => name !== reference.text && this.#records.find(name)?.digest === digest);
  }

  /** Whether one is being fetched, which may turn out to have any content. */
  isPulling(): boolean {
    return this.#pulls.size > 0;
  }

  forget(reference: ImageReference): void {
    this.#records.forget(reference.text);
    this.#askedAtMs.delete(reference.text);
  }

  /** Whatever names stand for it. */
  forgetContent(digest: string): void {
    for (const name of this.#records.namesOf(digest)) {
      this.#records.forget(name);
      this.#askedAtMs.delete(name);
    }
  }

  /** The local image when it is pinned or was checked lately, else what the registry has; the local one when that cannot be reached. */
  async resolve(reference: ImageReference): Promise<ResolvedImage> {
    const local = this.#records.find(reference.text);
    const askedAtMs = this.#askedAtMs.get(reference.text) ?? Number.NEGATIVE_INFINITY;
    if (local !== undefined && (reference.pinned || Date.now() - askedAtMs < recheckAfterMs)) return local;
    let pull = this.#pulls.get(reference.text);
    if (pull === undefined) {
      // Counted as under way until whoever waited for it has had a chance to hold what came.
      pull = this.#pull(reference, local).finally(() => setImmediate(() => this.#pulls.delete(reference.text)));
      this.#pulls.set(reference.text, pull);
    }
    return await pull;
  }

  async #pull(reference: ImageReference, local: ResolvedImage | undefined): Promise<ResolvedImage> {
    const log = this.#options.log.child({ image: reference.text });
    const patience = local === undefined ? firstPatience : recheckPatience;
    const startedAt = performance.now();
    const onPhase: PullOptions["onPhase"] = (phase, fields) => {
      log.info({ ...fields, durationMs: Math.round(performance.now() - startedAt) }, `image ${phase}`);
    };
    try {
      await this.#takeTurn();
      log.info("asking the registry for an image");
      const options = { ...this.#options, ...patience, signal: this.#stop.signal, onPhase };
      const pulled = await pullImage(reference, options).finally(() => this.#passTurn());
      this.#askedAtMs.set(reference.text, Date.now());
      return this.#records.write({ ...pulled, name: reference.text });
    } catch (error) {
      log.warn({ err: error }, "an image could not be pulled");
      const isRefused = error instanceof PullFailure && error.kind === "refused";
      if (local === undefined || isRefused || this.#stop.signal.aborted) throw error;
      this.#askedAtMs.set(reference.text, Date.now());
      return local;
    }
  }

  async #takeTurn(): Promise<void> {
    if (this.#running < pullsAtOnceMax) {
      this.#running += 1;
      return;
    }
    if (this.#waiting.length >= pullsWaitingMax) {
      throw new AppError("unavailable", "This host is pulling too many images already; try again later.");
    }
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** The turn goes to the next in line, or becomes free. */
  #passTurn(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#running -= 1;
    else next();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await Promise.allSettled(this.#pulls.values());
  }
}
