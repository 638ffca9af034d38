// How much disk each image takes: measured once per content, one after the other, since counting a tree takes a while.
import { join } from "node:path";
import { BoundedMap } from "../../core/bounded-map.ts";
import type { Logger } from "../../core/log.ts";
import { runCommand } from "../../core/run-command.ts";

const patienceMs = 2_000;
const measureTimeoutMs = 120_000;

export class ImageSizes {
  readonly #imageDir: string;
  readonly #log: Logger;
  readonly #sizes = new BoundedMap<string, number>(10_000);
  readonly #queued = new Set<string>();
  #work: Promise<void> = Promise.resolve();

  constructor(imageDir: string, log: Logger) {
    this.#imageDir = imageDir;
    this.#log = log;
  }

  find(digest: string): number | undefined {
    return this.#sizes.get(digest);
  }

  /** Waits a moment; what is not known by then is measured behind the caller, for the next one. */
  async measure(digests: readonly string[]): Promise<void> {
    for (const digest of digests) {
      if (this.#sizes.get(digest) !== undefined || this.#queued.has(digest)) continue;
      this.#queued.add(digest);
      this.#work = this.#work.then(() => this.#measureOne(digest));
    }
    if (digests.every((digest) => this.#sizes.get(digest) !== undefined)) return;
    const timer = Promise.withResolvers<void>();
    const timeout = setTimeout(timer.resolve, patienceMs);
    await Promise.race([this.#work, timer.promise]);
    clearTimeout(timeout);
  }

  async #measureOne(digest: string): Promise<void> {
    const root = join(this.#imageDir, "rootfs", digest);
    try {
      const { stdout } = await runCommand("du", ["-s", "--block-size=1", "--", root], { timeoutMs: measureTimeoutMs });
      const bytes = Number.parseInt(stdout, 10);
      if (Number.isSafeInteger(bytes)) this.#sizes.set(digest, bytes);
    } catch (error) {
      this.#log.debug({ digest, err: error }, "an image could not be measured");
    } finally {
      this.#queued.delete(digest);
    }
  }
}
