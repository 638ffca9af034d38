// The images the project itself defines, built by set-up, and the names callers may use for them.
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import type { ImageEntry, ResolvedImage } from "./images.ts";

/** What set-up writes when an image is complete. */
type PlatformRecord = {
  name: string;
  aliases: string[];
  digest: string;
  idRangeStart: number;
  environment: Record<string, string>;
  workingDir: string;
  homeDir: string;
  /** Images built by an older set-up have none. */
  description?: string;
};

/** Names below these belong to the platform and are never looked for in a registry. */
const namespaces = ["blaxel/", "catnap/"];

export class PlatformImages {
  readonly #imageDir: string;
  readonly #idRangeStart: number;
  #readAtMs = -1;
  #byName = new Map<string, PlatformRecord>();

  constructor(imageDir: string, idRangeStart: number) {
    this.#imageDir = imageDir;
    this.#idRangeStart = idRangeStart;
  }

  /** Whether a name can only mean a platform image, existing or not. */
  claims(name: string): boolean {
    return namespaces.some((namespace) => name.startsWith(namespace));
  }

  find(name: string): ResolvedImage | undefined {
    this.#refresh();
    const record = this.#byName.get(bareName(name));
    if (record === undefined) return undefined;
    const { digest, environment, workingDir, homeDir } = record;
    return { name: publicName(record.name), digest, rootDir: this.#rootDir(digest), environment, workingDir, homeDir };
  }

  list(): string[] {
    this.#refresh();
    return [...this.#byName.keys()].map(publicName).sort();
  }

  /** Whether a name stands for this content. */
  uses(digest: string): boolean {
    this.#refresh();
    return [...this.#byName.values()].some((record) => record.digest === digest);
  }

  describe(name: string): ImageEntry | undefined {
    this.#refresh();
    const record = this.#byName.get(bareName(name));
    if (record === undefined) return undefined;
    const { mtime } = statSync(join(this.#imageDir, "platform", `${record.name}.json`));
    return {
      name: publicName(bareName(name)),
      kind: "platform",
      digest: record.digest,
      updatedAt: mtime.toISOString(),
      ...(record.description !== undefined && { description: record.description }),
    };
  }

  /** Set-up may renew an image while the platform runs: its rename changes the directory's time. */
  #refresh(): void {
    const dir = join(this.#imageDir, "platform");
    const changedAtMs = statSync(dir).mtimeMs;
    if (changedAtMs === this.#readAtMs) return;
    const byName = new Map<string, PlatformRecord>();
    for (const file of readdirSync(dir).filter((name) => name.endsWith(".json"))) {
      const record = readRecord(join(dir, file));
      if (
        record === undefined ||
        record.idRangeStart !== this.#idRangeStart ||
        !existsSync(this.#rootDir(record.digest))
      )
        continue;
      for (const name of [record.name, ...record.aliases]) byName.set(name, record);
    }
    this.#byName = byName;
    this.#readAtMs = changedAtMs;
  }

  #rootDir(digest: string): string {
    return join(this.#imageDir, "rootfs", digest);
  }
}

/** A record that cannot be read is no image; set-up builds it anew. */
function readRecord(path: string): PlatformRecord | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as PlatformRecord;
  } catch {
    return undefined;
  }
}

/** `base-image`, `blaxel/base-image` and `blaxel/base-image:latest` are one. */
function bareName(name: string): string {
  const namespace = namespaces.find((prefix) => name.startsWith(prefix)) ?? "";
  return name.slice(namespace.length).replace(/:latest$/, "");
}

function publicName(bare: string): string {
  return `blaxel/${bare}:latest`;
}
