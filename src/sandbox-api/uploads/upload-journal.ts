// What is kept on disk about a multipart upload: one file of JSON lines each, appended as parts come.
import { appendFileSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDiskFull } from "../../core/disk-full.ts";
import { AppError } from "../../core/errors.ts";

export type StoredPart = { partNumber: number; etag: string; sizeBytes: number; uploadedAt: string; file: string };

export type UploadRecord = {
  uploadId: string;
  path: string;
  mode: number;
  initiatedAt: string;
  parts: Map<number, StoredPart>;
  /** Sum of the parts of a completion that began; it may have been published. */
  completing: { sizeBytes: number } | undefined;
  completed: boolean;
  /** Nothing of a completed upload is left inside the sandbox. */
  cleared: boolean;
};

type Line =
  | { kind: "initiated"; uploadId: string; path: string; mode: number; initiatedAt: string }
  | ({ kind: "part" } & StoredPart)
  | { kind: "completing"; sizeBytes: number }
  | { kind: "completed" }
  | { kind: "cleared" };

/** Lines of replaced parts that may stand beside those that count before the file is written anew. */
const staleLinesMax = 1_000;

export const uploadIdPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export class UploadJournal {
  readonly #directory: string;
  readonly #lines = new Map<string, number>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** A line begins on a line of its own also after one that was torn. */
  append(uploadId: string, line: Line): void {
    this.#lines.set(uploadId, (this.#lines.get(uploadId) ?? 0) + 1);
    write(() => appendFileSync(this.#path(uploadId), `\n${JSON.stringify(line)}\n`, { mode: 0o600 }));
  }

  /** Writes down a part; a file that has become long by replaced parts is written anew. */
  appendPart(record: UploadRecord, part: StoredPart): void {
    this.append(record.uploadId, { kind: "part", ...part });
    if (this.#lines.get(record.uploadId)! > 2 * record.parts.size + staleLinesMax) this.rewrite(record);
  }

  /** Keeps what counts and nothing else. */
  rewrite(record: UploadRecord): void {
    const { uploadId, path, mode, initiatedAt, parts, completing, completed, cleared } = record;
    const lines: Line[] = [{ kind: "initiated", uploadId, path, mode, initiatedAt }];
    for (const part of parts.values()) lines.push({ kind: "part", ...part });
    if (completing !== undefined) lines.push({ kind: "completing", ...completing });
    if (completed) lines.push({ kind: "completed" });
    if (cleared) lines.push({ kind: "cleared" });
    const fresh = `${this.#path(uploadId)}.new`;
    write(() => {
      writeFileSync(fresh, lines.map((line) => `${JSON.stringify(line)}\n`).join(""), { mode: 0o600 });
      renameSync(fresh, this.#path(uploadId));
    });
    this.#lines.set(uploadId, lines.length);
  }

  remove(uploadId: string): void {
    rmSync(this.#path(uploadId), { force: true });
    this.#lines.delete(uploadId);
  }

  /** Every upload on disk, oldest first; a torn last line is left out, a file without a beginning removed. */
  load(): UploadRecord[] {
    const records: UploadRecord[] = [];
    for (const name of readdirSync(this.#directory)) {
      const uploadId = name.slice(0, -6);
      if (!name.endsWith(".jsonl") || !uploadIdPattern.test(uploadId)) continue;
      const content = readFileSync(this.#path(uploadId), "utf8");
      this.#lines.set(uploadId, content.split("\n").length);
      const record = readRecord(content);
      if (record === undefined) this.remove(uploadId);
      else records.push(record);
    }
    return records.sort((a, b) => (a.initiatedAt < b.initiatedAt ? -1 : 1));
  }

  #path(uploadId: string): string {
    return join(this.#directory, `${uploadId}.jsonl`);
  }
}

function readRecord(content: string): UploadRecord | undefined {
  let record: UploadRecord | undefined;
  for (const text of content.split("\n").slice(0, -1)) {
    if (text === "") continue;
    const line = parseLine(text);
    if (line === undefined) continue;
    if (line.kind === "initiated") {
      const { kind: _, ...initiated } = line;
      record = { ...initiated, parts: new Map(), completing: undefined, completed: false, cleared: false };
    } else if (line.kind === "part") {
      const { kind: _, ...part } = line;
      record?.parts.set(part.partNumber, part);
    } else if (record !== undefined && line.kind === "completing") {
      record.completing = { sizeBytes: line.sizeBytes };
    } else if (record !== undefined) {
      record.completed = true;
      record.cleared ||= line.kind === "cleared";
    }
  }
  return record;
}

/** A line torn by a crash or a full disk is skipped wherever it stands. */
function parseLine(text: string): Line | undefined {
  try {
    return JSON.parse(text) as Line;
  } catch {
    return undefined;
  }
}

/** The host's disk, not the sandbox's. */
function write(work: () => void): void {
  try {
    work();
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    throw new AppError("unavailable", "The platform has no room to record the upload; try again later.", {
      cause: error,
    });
  }
}
