// Removes root file systems that nothing has run on for a long time: images that were pulled once, what a tag meant before it moved,
// platform images that were built anew. Whoever wants one again has it pulled again.
import { mkdirSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { FirstTime } from "../../core/first-time.ts";
import type { Logger } from "../../core/log.ts";
import type { ImageHolds } from "./holds.ts";
import type { ImageUsers } from "./image-users.ts";
import type { PlatformImages } from "./platform-images.ts";
import type { PulledImages } from "./pulled-images.ts";
import { discardRoot, removeDiscarded } from "./removal.ts";

type CollectionParts = {
  imageDir: string;
  platform: PlatformImages;
  pulled: PulledImages;
  holds: ImageHolds;
  users: ImageUsers;
  log: Logger;
};

export type CollectOptions = {
  /** How long what nobody uses is kept. */
  retentionMs: number;
  /** Whether instances run on the content, or may. */
  isUsed: (digest: string) => boolean;
  /** Instances made ahead do not keep it: they are removed first. */
  isWarm: (digest: string) => boolean;
  forgetWarm: (digest: string) => Promise<void>;
  signal: AbortSignal;
  nowMs?: number;
};

/** When a content was last seen in use is the time of an empty file named after it: one look knows nothing of what was before it. */
export class ImageCollection {
  readonly #parts: CollectionParts;
  readonly #dir: string;
  readonly #failing = new FirstTime();

  constructor(parts: CollectionParts) {
    this.#parts = parts;
    this.#dir = join(parts.imageDir, "used");
    mkdirSync(this.#dir, { recursive: true, mode: 0o700 });
  }

  /** Resolves with the digests of what it has removed; what cannot be removed keeps no other, and is tried again the next time. */
  async collect(options: CollectOptions): Promise<string[]> {
    const { imageDir, holds, log } = this.#parts;
    const present = readdirSync(join(imageDir, "rootfs")).filter((name) => /^[0-9a-f]{64}$/.test(name));
    for (const name of readdirSync(this.#dir)) {
      if (!present.includes(name)) rmSync(join(this.#dir, name), { recursive: true, force: true });
    }
    await removeDiscarded(imageDir);
    const heldLately = holds.takeLately();
    const removed: string[] = [];
    for (const digest of present) {
      if (options.signal.aborted) break;
      try {
        if (await this.#collectOne(digest, heldLately.has(digest), options)) removed.push(digest);
        this.#failing.forget(digest);
      } catch (error) {
        if (this.#failing.meets(digest))
          log.warn({ digest, err: error }, "an image could not be collected; it is tried again");
      }
    }
    return removed;
  }

  async #collectOne(digest: string, wasHeld: boolean, options: CollectOptions): Promise<boolean> {
    const { imageDir, platform, holds, pulled, users, log } = this.#parts;
    const { retentionMs, isUsed, isWarm, forgetWarm, nowMs = Date.now() } = options;
    const usedAtMs = this.#usedAtMs(digest);
    if (usedAtMs === undefined || platform.uses(digest) || wasHeld || isUsed(digest)) {
      this.#markUsed(digest, nowMs);
      return false;
    }
    if (nowMs - usedAtMs < retentionMs || users.hasOthers()) return false;
    await forgetWarm(digest);
    // Nothing is awaited between these questions and the move: who comes later finds no image, and fetches it again.
    if (users.hasOthers() || pulled.isPulling() || holds.has(digest)) return false;
    if (isUsed(digest) || isWarm(digest) || platform.uses(digest)) return false;
    const gone = discardRoot(imageDir, digest);
    pulled.forgetContent(digest);
    await gone;
    log.info({ digest, unusedSince: new Date(usedAtMs).toISOString() }, "an image nobody used was removed");
    return true;
  }

  #usedAtMs(digest: string): number | undefined {
    return statSync(join(this.#dir, digest), { throwIfNoEntry: false })?.mtimeMs;
  }

  #markUsed(digest: string, nowMs: number): void {
    const path = join(this.#dir, digest);
    writeFileSync(path, "");
    utimesSync(path, nowMs / 1_000, nowMs / 1_000);
  }
}
