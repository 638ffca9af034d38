// What is kept on disk about a multipart upload: one file of JSON lines each, appended as parts come.
import { appendFileSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";

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
};

type Line =
  | { kind: "initiated"; uploadId: string; path: string; mode: number; initiatedAt: string }
  | ({ kind: "part" } & StoredPart)
  | { kind: "completing"; sizeBytes: number }
  | { kind: "completed" };

export const uploadIdPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export class UploadJournal {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  append(uploadId: string, line: Line): void {
    appendFileSync(this.#path(uploadId), `${JSON.stringify(line)}\n`, { mode: 0o600 });
  }

  remove(uploadId: string): void {
    rmSync(this.#path(uploadId), { force: true });
  }

  /** Every upload on disk, oldest first; a torn last line is left out, a file without a beginning removed. */
  load(): UploadRecord[] {
    const records: UploadRecord[] = [];
    for (const name of readdirSync(this.#directory)) {
      const uploadId = name.slice(0, -6);
      if (!name.endsWith(".jsonl") || !uploadIdPattern.test(uploadId)) continue;
      const record = readRecord(readFileSync(this.#path(uploadId), "utf8"));
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
    const line = parseLine(text);
    if (line === undefined) continue;
    if (line.kind === "initiated") {
      const { kind: _, ...initiated } = line;
      record = { ...initiated, parts: new Map(), completing: undefined, completed: false };
    } else if (line.kind === "part") {
      const { kind: _, ...part } = line;
      record?.parts.set(part.partNumber, part);
    } else if (record !== undefined && line.kind === "completing") {
      record.completing = { sizeBytes: line.sizeBytes };
    } else if (record !== undefined) {
      record.completed = true;
    }
  }
  return record;
}

/** A line torn by a crash is followed by a whole one when the daemon goes on: it is skipped wherever it stands. */
function parseLine(text: string): Line | undefined {
  try {
    return JSON.parse(text) as Line;
  } catch {
    return undefined;
  }
}
