// What references mean on this host: one small file each, written when the content they name is published, kept within a limit.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { writeFileAtomic } from "../../core/atomic-file.ts";
import type { Logger } from "../../core/log.ts";
import type { ImageEntry, ResolvedImage } from "./images.ts";

type ReferenceRecord = Omit<ResolvedImage, "rootDir"> & { idRangeStart: number };

/** A tenant can make up any number of names for one image; the oldest are forgotten. */
const recordsMax = 10_000;

export class ReferenceRecords {
  readonly #imageDir: string;
  readonly #idRangeStart: number;
  /** By complete reference, the one written last at the end. */
  readonly #images = new Map<string, ResolvedImage>();

  constructor(imageDir: string, idRangeStart: number) {
    this.#imageDir = imageDir;
    this.#idRangeStart = idRangeStart;
  }

  load(log: Logger): void {
    const dir = join(this.#imageDir, "references");
    const paths = readdirSync(dir).map((name) => join(dir, name));
    const byAge = paths.map((path) => ({ path, atMs: statSync(path).mtimeMs })).sort((a, b) => a.atMs - b.atMs);
    for (const { path } of byAge) {
      try {
        const { idRangeStart, ...record } = JSON.parse(readFileSync(path, "utf8")) as ReferenceRecord;
        if (idRangeStart === this.#idRangeStart) this.#images.set(record.name, this.#complete(record));
      } catch (error) {
        // It is asked for again when somebody wants it.
        log.warn({ err: error, path }, "an unreadable record of an image is ignored");
      }
    }
  }

  /** Undefined, too, when somebody has removed the files. */
  find(reference: string): ResolvedImage | undefined {
    const image = this.#images.get(reference);
    return image !== undefined && existsSync(image.rootDir) ? image : undefined;
  }

  names(): string[] {
    return [...this.#images.keys()];
  }

  namesOf(digest: string): string[] {
    return [...this.#images].filter(([, image]) => image.digest === digest).map(([name]) => name);
  }

  /** Undefined when the image or its record is not here, or the record was written in another id range. */
  describe(reference: string): ImageEntry | undefined {
    const image = this.find(reference);
    if (image === undefined) return undefined;
    const written = statSync(this.#path(reference), { throwIfNoEntry: false });
    if (written === undefined) return undefined;
    const { mtime } = written;
    return { name: reference, kind: "pulled", digest: image.digest, updatedAt: mtime.toISOString() };
  }

  forget(reference: string): void {
    this.#images.delete(reference);
    rmSync(this.#path(reference), { force: true });
  }

  write(record: Omit<ReferenceRecord, "idRangeStart">): ResolvedImage {
    const { name, digest, environment, workingDir, homeDir } = record;
    const kept: ReferenceRecord = { name, digest, environment, workingDir, homeDir, idRangeStart: this.#idRangeStart };
    writeFileAtomic(this.#path(name), JSON.stringify(kept));
    const image = this.#complete({ name, digest, environment, workingDir, homeDir });
    this.#images.delete(name);
    this.#images.set(name, image);
    const [oldest] = this.#images.keys();
    if (this.#images.size > recordsMax && oldest !== undefined) {
      this.#images.delete(oldest);
      rmSync(this.#path(oldest), { force: true });
    }
    return image;
  }

  #complete(record: Omit<ResolvedImage, "rootDir">): ResolvedImage {
    return { ...record, rootDir: join(this.#imageDir, "rootfs", record.digest) };
  }

  #path(reference: string): string {
    return join(this.#imageDir, "references", `${createHash("sha256").update(reference).digest("hex")}.json`);
  }
}
