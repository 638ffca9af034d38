// Images from registries: what this host has pulled, under which reference, and the pulls under way. Callers of one image share a pull.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { writeFileAtomic } from "../../core/atomic-file.ts";
import type { Logger } from "../../core/log.ts";
import { PullFailure } from "./copy-from-registry.ts";
import type { ResolvedImage } from "./images.ts";
import { type PullOptions, pullImage } from "./pull.ts";
import type { ImageReference } from "./reference.ts";
import { removeAbandonedWorkDirs } from "./work-dirs.ts";

type PulledImagesOptions = Omit<PullOptions, "signal" | "onPhase" | "copyTimeoutMs" | "copyRetries"> & { log: Logger };

/** One file each, named after the reference's hash, written when the content it names is published. */
type ReferenceRecord = Omit<ResolvedImage, "rootDir"> & { idRangeStart: number };

/** `checkedAtMs`: when the registry was last asked what the tag means, or could not be. */
type Known = { image: ResolvedImage; checkedAtMs: number };

const recheckAfterMs = 5 * 60_000;
const recheckPatience = { copyTimeoutMs: 10_000, copyRetries: 0 };
const firstPatience = { copyTimeoutMs: 600_000, copyRetries: 1 };
const pullsAtOnceMax = 2;
const pullsWaitingMax = 32;

export class PulledImages implements AsyncDisposable {
  readonly #options: PulledImagesOptions;
  readonly #referencesDir: string;
  readonly #known = new Map<string, Known>();
  readonly #pulls = new Map<string, Promise<ResolvedImage>>();
  readonly #waiting: (() => void)[] = [];
  readonly #stop = new AbortController();
  #running = 0;

  constructor(options: PulledImagesOptions) {
    this.#options = options;
    this.#referencesDir = join(options.imageDir, "references");
  }

  /** Reads what is here and removes what a dead process left half-made. */
  async open(): Promise<void> {
    const pullsDir = join(this.#options.imageDir, "pulls");
    for (const dir of ["work", "blobs/sha256"]) mkdirSync(join(pullsDir, dir), { recursive: true, mode: 0o700 });
    await removeAbandonedWorkDirs(join(pullsDir, "work"));
    for (const file of readdirSync(this.#referencesDir)) this.#load(join(this.#referencesDir, file));
  }

  #load(path: string): void {
    if (!path.endsWith(".json")) return;
    const { idRangeStart, ...record } = JSON.parse(readFileSync(path, "utf8")) as ReferenceRecord;
    const image = { ...record, rootDir: join(this.#options.imageDir, "rootfs", record.digest) };
    if (idRangeStart !== this.#options.idRangeStart || !existsSync(image.rootDir)) return;
    this.#known.set(image.name, { image, checkedAtMs: 0 });
  }

  find(reference: ImageReference): ResolvedImage | undefined {
    return this.#known.get(reference.text)?.image;
  }

  /** The local image when it is pinned or was checked lately, else what the registry has; the local one when that cannot be reached. */
  async resolve(reference: ImageReference): Promise<ResolvedImage> {
    const known = this.#known.get(reference.text);
    if (known !== undefined && (reference.pinned || Date.now() - known.checkedAtMs < recheckAfterMs))
      return known.image;
    let pull = this.#pulls.get(reference.text);
    if (pull === undefined) {
      pull = this.#pull(reference, known).finally(() => this.#pulls.delete(reference.text));
      this.#pulls.set(reference.text, pull);
    }
    return pull;
  }

  async #pull(reference: ImageReference, known: Known | undefined): Promise<ResolvedImage> {
    const log = this.#options.log.child({ image: reference.text });
    const patience = known === undefined ? firstPatience : recheckPatience;
    const signal = this.#stop.signal;
    const startedAt = performance.now();
    try {
      await this.#takeTurn();
      log.info("asking the registry for an image");
      const onPhase: PullOptions["onPhase"] = (phase, fields) => {
        log.info({ ...fields, durationMs: Math.round(performance.now() - startedAt) }, `image ${phase}`);
      };
      const pulled = await pullImage(reference, { ...this.#options, ...patience, signal, onPhase }).finally(() =>
        this.#passTurn(),
      );
      return this.#remember(reference, pulled);
    } catch (error) {
      log.warn({ err: error }, "an image could not be pulled");
      const refused = error instanceof PullFailure && error.kind === "refused";
      if (known === undefined || refused || this.#stop.signal.aborted) throw error;
      known.checkedAtMs = Date.now();
      return known.image;
    }
  }

  #remember(reference: ImageReference, pulled: Omit<ReferenceRecord, "name" | "idRangeStart">): ResolvedImage {
    const { imageDir, idRangeStart } = this.#options;
    const { digest, environment, workingDir, homeDir } = pulled;
    const record: ReferenceRecord = { name: reference.text, digest, environment, workingDir, homeDir, idRangeStart };
    const file = `${createHash("sha256").update(reference.text).digest("hex")}.json`;
    writeFileAtomic(join(this.#referencesDir, file), JSON.stringify(record));
    const image = {
      name: reference.text,
      digest,
      environment,
      workingDir,
      homeDir,
      rootDir: join(imageDir, "rootfs", digest),
    };
    this.#known.set(reference.text, { image, checkedAtMs: Date.now() });
    return image;
  }

  async #takeTurn(): Promise<void> {
    if (this.#running < pullsAtOnceMax) {
      this.#running += 1;
      return;
    }
    if (this.#waiting.length >= pullsWaitingMax)
      throw new PullFailure("unreachable", "Too many images are being pulled; try again.");
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
