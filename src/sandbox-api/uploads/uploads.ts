// Multipart uploads of one sandbox. Parts lie inside the sandbox, charged to it; what is known about them lies on the host.
import { createHash, randomUUID } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type Readable, Transform } from "node:stream";
import { type CompleteRequest, partNumberMax } from "../../contract/sandbox-api/multipart.ts";
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import type { Machine } from "../machine.ts";
import { type StoredPart, UploadJournal, type UploadRecord, uploadIdPattern } from "./upload-journal.ts";

/** Where parts lie inside the sandbox. */
export const partsRoot = "/tmp/multipart-uploads";
export const openUploadsMax = 1_000;
export const storedPartsMax = 40_000;
/** Completed uploads remembered, so that a completion repeated after a lost answer succeeds again. */
const completedMax = 100;

type Upload = UploadRecord & {
  /** Set while it is completed or aborted: nothing else may touch it. */
  ending: "complete" | "abort" | undefined;
  receiving: Set<Promise<unknown>>;
  aborted: AbortController;
};

export class Uploads {
  readonly #machine: Machine;
  readonly #journal: UploadJournal;
  readonly #uploads = new Map<string, Upload>();

  constructor(machine: Machine) {
    const directory = join(machine.stateDir, "uploads");
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    this.#machine = machine;
    this.#journal = new UploadJournal(directory);
    for (const record of this.#journal.load()) this.#add(record);
    this.#forgetOldCompleted();
  }

  listOpen(): UploadRecord[] {
    return [...this.#uploads.values()].filter(({ completed }) => !completed);
  }

  initiate(path: string, mode: number): UploadRecord {
    if (this.listOpen().length >= openUploadsMax) {
      throw new AppError("rate_limited", `${openUploadsMax} uploads are open already; complete or abort some.`);
    }
    const initiated = { uploadId: randomUUID(), path, mode, initiatedAt: new Date().toISOString() };
    this.#journal.append(initiated.uploadId, { kind: "initiated", ...initiated });
    return this.#add({ ...initiated, parts: new Map(), completing: undefined, completed: false });
  }

  /** An upload that still takes parts: `invalid_request` for an id that is none, `not_found` for an unknown one. */
  get(uploadId: string): UploadRecord {
    return this.#open(uploadId);
  }

  /** Stores a part; of several with one number the one that finished last counts. */
  async receivePart(uploadId: string, partNumber: number, body: Readable, signal: AbortSignal): Promise<StoredPart> {
    const upload = this.#open(uploadId);
    if (upload.ending !== undefined) throw new AppError("conflict", "The upload is being completed or aborted.");
    const stored = [...this.#uploads.values()].reduce((sum, { parts }) => sum + parts.size, 0);
    if (stored >= storedPartsMax) throw new AppError("rate_limited", `${storedPartsMax} parts are stored already.`);
    const receiving = this.#store(upload, partNumber, body, signal);
    const settled = receiving.catch(() => undefined);
    upload.receiving.add(settled);
    try {
      return await receiving;
    } finally {
      upload.receiving.delete(settled);
    }
  }

  /** Publishes the named parts in the order of their numbers. Repeated after success, it succeeds again. */
  async complete(uploadId: string, named: CompleteRequest["parts"]): Promise<UploadRecord> {
    const known = this.#find(uploadId);
    if (known?.completed === true) return known;
    const upload = this.#open(uploadId);
    const parts = chooseParts(upload, named);
    this.#beginEnding(upload, "complete");
    try {
      await Promise.all(upload.receiving);
      await this.#publish(upload, parts);
      upload.completed = true;
      this.#journal.append(uploadId, { kind: "completed" });
    } finally {
      upload.ending = undefined;
    }
    await this.#removeParts(upload).catch(() => undefined);
    upload.parts.clear();
    this.#forgetOldCompleted();
    return upload;
  }

  /** Stops what is being received and removes every part; the record goes last, so that a failed abort can be repeated. */
  async abort(uploadId: string): Promise<UploadRecord> {
    const upload = this.#open(uploadId);
    this.#beginEnding(upload, "abort");
    try {
      upload.aborted.abort(new AppError("conflict", "The upload was aborted."));
      await Promise.all(upload.receiving);
      await this.#removeParts(upload);
    } catch (error) {
      upload.aborted = new AbortController();
      throw error;
    } finally {
      upload.ending = undefined;
    }
    this.#journal.remove(uploadId);
    this.#uploads.delete(uploadId);
    return upload;
  }

  async #store(upload: Upload, partNumber: number, body: Readable, signal: AbortSignal): Promise<StoredPart> {
    const { files } = this.#machine.guest;
    const file = `${partNumber}-${randomToken(8)}`;
    const md5 = createHash("md5");
    let sizeBytes = 0;
    const measured = new Transform({
      transform(chunk: Buffer, _encoding, done) {
        md5.update(chunk);
        sizeBytes += chunk.length;
        done(null, chunk);
      },
    });
    body.once("error", (error) => measured.destroy(error));
    // The write may not have begun to listen, or have given up already; its own failure tells.
    measured.on("error", () => undefined);
    const either = AbortSignal.any([signal, upload.aborted.signal]);
    await files.write(partPath(upload, file), body.pipe(measured), { mode: 0o600, signal: either });
    if (upload.aborted.signal.aborted || !this.#uploads.has(upload.uploadId)) throw upload.aborted.signal.reason;
    const part = { partNumber, etag: md5.digest("hex"), sizeBytes, uploadedAt: new Date().toISOString(), file };
    const replaced = upload.parts.get(partNumber);
    this.#journal.append(upload.uploadId, { kind: "part", ...part });
    upload.parts.set(partNumber, part);
    if (replaced !== undefined) await files.remove(partPath(upload, replaced.file)).catch(() => undefined);
    return part;
  }

  async #publish(upload: Upload, parts: readonly StoredPart[]): Promise<void> {
    const { files } = this.#machine.guest;
    const sizeBytes = parts.reduce((sum, part) => sum + part.sizeBytes, 0);
    if (upload.completing?.sizeBytes === sizeBytes && (await this.#wasPublished(upload, parts))) return;
    await this.#checkSizes(upload, parts);
    this.#journal.append(upload.uploadId, { kind: "completing", sizeBytes });
    upload.completing = { sizeBytes };
    const sources = parts.map(({ file }) => partPath(upload, file));
    await files.concatenate(upload.path, sources, { mode: upload.mode });
  }

  /** After a crash in the middle of a completion: the sources went only after the file was in its place. */
  async #wasPublished(upload: Upload, parts: readonly StoredPart[]): Promise<boolean> {
    const { files } = this.#machine.guest;
    const sizes = await this.#storedSizes(upload);
    if (parts.some(({ file }) => sizes.has(file))) return false;
    const info = await files.stat(upload.path).catch(() => undefined);
    return info?.type === "file" && info.sizeBytes === upload.completing?.sizeBytes;
  }

  /** Parts lie where the sandbox's own processes can reach them: what was changed or removed is refused. */
  async #checkSizes(upload: Upload, parts: readonly StoredPart[]): Promise<void> {
    const sizes = await this.#storedSizes(upload);
    for (const { partNumber, file, sizeBytes } of parts) {
      const found = sizes.get(file);
      if (found === sizeBytes) continue;
      const what = found === undefined ? "is missing" : `has ${found} bytes instead of ${sizeBytes}`;
      throw new AppError("invalid_request", `Part ${partNumber} ${what} inside the sandbox; upload it again.`);
    }
  }

  async #storedSizes(upload: Upload): Promise<Map<string, number>> {
    try {
      const entries = await this.#machine.guest.files.list(partsDirectory(upload), storedPartsMax * 2);
      return new Map(entries.filter(({ type }) => type === "file").map(({ name, sizeBytes }) => [name, sizeBytes]));
    } catch (error) {
      if (error instanceof AppError && error.code === "not_found") return new Map();
      throw error;
    }
  }

  async #removeParts(upload: Upload): Promise<void> {
    try {
      await this.#machine.guest.files.remove(partsDirectory(upload), { recursive: true });
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== "not_found") throw error;
    }
  }

  #beginEnding(upload: Upload, ending: "complete" | "abort"): void {
    if (upload.ending !== undefined) throw new AppError("conflict", "The upload is being completed or aborted.");
    upload.ending = ending;
  }

  #find(uploadId: string): Upload | undefined {
    if (!uploadIdPattern.test(uploadId)) throw new AppError("invalid_request", "The upload id is not a UUID.");
    return this.#uploads.get(uploadId);
  }

  #open(uploadId: string): Upload {
    const upload = this.#find(uploadId);
    if (upload === undefined || upload.completed)
      throw new AppError("not_found", `Upload '${uploadId}' was not found.`);
    return upload;
  }

  #add(record: UploadRecord): Upload {
    const upload = {
      ...record,
      ending: undefined,
      receiving: new Set<Promise<unknown>>(),
      aborted: new AbortController(),
    };
    this.#uploads.set(record.uploadId, upload);
    return upload;
  }

  #forgetOldCompleted(): void {
    const completed = [...this.#uploads.values()].filter((upload) => upload.completed);
    for (const { uploadId } of completed.slice(0, Math.max(0, completed.length - completedMax))) {
      this.#uploads.delete(uploadId);
      this.#journal.remove(uploadId);
    }
  }
}

function partsDirectory({ uploadId }: UploadRecord): string {
  return `${partsRoot}/${uploadId}`;
}

function partPath(upload: UploadRecord, file: string): string {
  return `${partsDirectory(upload)}/${file}`;
}

function chooseParts(upload: UploadRecord, named: CompleteRequest["parts"]): StoredPart[] {
  if (named.length === 0) throw new AppError("invalid_request", "parts is empty");
  if (named.length > partNumberMax)
    throw new AppError("invalid_request", `parts has more than ${partNumberMax} entries`);
  const chosen = new Map<number, StoredPart>();
  for (const { partNumber, etag } of named) {
    const part = upload.parts.get(partNumber);
    if (part === undefined) throw new AppError("invalid_request", `Part ${partNumber} was not uploaded.`);
    if (part.etag !== etag.replace(/^"(.*)"$/, "$1")) {
      throw new AppError(
        "invalid_request",
        `Part ${partNumber} has the etag ${part.etag}, which is not the one given.`,
      );
    }
    if (chosen.has(partNumber)) throw new AppError("invalid_request", `Part ${partNumber} is named twice.`);
    chosen.set(partNumber, part);
  }
  return [...chosen.values()].sort((a, b) => a.partNumber - b.partNumber);
}
