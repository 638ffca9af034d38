// Which data directories have instances on the images of a directory: two platforms may share one, and one cannot see what the other
// needs, running or not, so neither removes anything then.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { writeFileAtomic } from "../../core/atomic-file.ts";

/** A data directory may be away for a while, on a disk that is not mounted. */
const goneForMs = 30 * 24 * 3_600_000;

export class ImageUsers {
  readonly #dir: string;
  readonly #own: string | undefined;

  constructor(imageDir: string, dataDir: string | undefined) {
    this.#dir = join(imageDir, "users");
    mkdirSync(this.#dir, { recursive: true, mode: 0o700 });
    this.#forgetGone();
    if (dataDir === undefined) return;
    this.#own = createHash("sha256").update(dataDir).digest("hex").slice(0, 32);
    writeFileAtomic(join(this.#dir, this.#own), dataDir, { durable: true });
  }

  /** The entry of a platform is as old as its last start. */
  #forgetGone(): void {
    for (const name of readdirSync(this.#dir)) {
      const path = join(this.#dir, name);
      if (Date.now() - statSync(path).mtimeMs > goneForMs && !existsSync(readFileSync(path, "utf8"))) rmSync(path);
    }
  }

  /** A data directory that is gone needs nothing any more. */
  hasOthers(): boolean {
    const others = readdirSync(this.#dir).filter((name) => name !== this.#own && !name.endsWith(".new"));
    return others.some((name) => existsSync(readFileSync(join(this.#dir, name), "utf8")));
  }
}
