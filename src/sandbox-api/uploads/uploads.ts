// Multipart uploads of one sandbox. Parts lie inside the sandbox, charged to it; what is known about them lies on the host.
import { createHash, randomUUID } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type Readable, Transform } from "node:stream";
import { type CompleteRequest, partNumberMax } from "../../contract/sandbox-api/multipart.ts";
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import { takeSmallFile } from "../files/form-upload.ts";
import { asWriteFailure } from "../files/write-failure.ts";
import type { GuestFiles, Machine } from "../machine.ts";
import { consistsOf, verifyParts } from "./part-content.ts";
import { type StoredPart, UploadJournal, type UploadRecord, uploadIdPattern } from "./upload-journal.ts";

const partsRootDefault = "/tmp/multipart-uploads";
export const openUploadsMax = 1_000;
export const storedPartsMax = 40_000;
/** How long an upload may lie without another part coming. */
const uploadTtlDefaultMs = 24 * 60 * 60_000;
const collectIntervalMaxMs = 10 * 60_000;
/** Completed uploads remembered, so that a completion repeated after a lost answer succeeds again. */
const completedMax = 100;

type Upload = UploadRecord & {
  /** Where its parts lie inside the sandbox. */
  partsDirectory: string;
  /** Set while it is completed or aborted: nothing else may touch it. */
  ending: "complete" | "abort" | undefined;
  receiving: Set<Promise<unknown>>;
  /** Ends what is being received. */
  stop: AbortController;
  hasDirectory: boolean;
  /** When something of it came last. */
  activeAtMs: number;
};

export type UploadsOptions = {
  ttlMs?: number | undefined;
  partsRoot?: string | undefined;
};

export class Uploads {
  readonly #machine: Machine;
  readonly #partsRoot: string;
  readonly #ttlMs: number;
  readonly #journal: UploadJournal;
  readonly #uploads = new Map<string, Upload>();
  #collectAtMs = 0;
  /** Completions read what they publish: one at a time. */
  #publishing: Promise<unknown> = Promise.resolve();

  constructor(machine: Machine, { ttlMs = uploadTtlDefaultMs, partsRoot = partsRootDefault }: UploadsOptions = {}) {
    const directory = join(machine.stateDir, "uploads");
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    this.#machine = machine;
    this.#ttlMs = ttlMs;
    this.#partsRoot = partsRoot;
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
    return this.#add({ ...initiated, parts: new Map(), completing: undefined, completed: false, cleared: false });
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
    const receiving = this.#store(upload, partNumber, body, AbortSignal.any([signal, upload.stop.signal]));
    const settled = receiving.catch(() => undefined);
    upload.receiving.add(settled);
    try {
      return await receiving;
    } finally {
      upload.receiving.delete(settled);
      upload.activeAtMs = Date.now();
    }
  }

  /**
   * Publishes the named parts in the order of their numbers; parts that are still coming are ended. Repeated after success, it
   * succeeds again.
   */
  async complete(uploadId: string, named: CompleteRequest["parts"]): Promise<UploadRecord> {
    const known = this.#find(uploadId);
    if (known?.completed === true) return known;
    const upload = this.#open(uploadId);
    chooseParts(upload, named);
    await this.#whileEnding(upload, "complete", async () => {
      // One of them may have been replaced meanwhile.
      const parts = chooseParts(upload, named);
      await this.#inTurn(() => this.#publish(upload, parts));
      this.#journal.append(uploadId, { kind: "completed" });
      upload.completed = true;
    });
    await this.#clear(upload).catch(() => undefined);
    this.#forgetOldCompleted();
    return upload;
  }

  /** Removes every part; the record goes last, so that a failed abort can be repeated. */
  async abort(uploadId: string): Promise<UploadRecord> {
    const upload = this.#open(uploadId);
    await this.#whileEnding(upload, "abort", async () => {
      await this.#removeParts(upload);
      this.#journal.remove(uploadId);
      this.#uploads.delete(uploadId);
    });
    return upload;
  }

  /**
   * Removes what nobody has sent anything of for long, and what a daemon that ended left. Called when the sandbox is used: a
   * sandbox that sleeps is not woken for it.
   */
  collect(now = Date.now()): void {
    if (now < this.#collectAtMs) return;
    this.#collectAtMs = now + Math.min(this.#ttlMs / 10, collectIntervalMaxMs);
    for (const upload of this.#uploads.values()) {
      if (upload.ending !== undefined || upload.receiving.size > 0) continue;
      // What fails is tried again.
      if (upload.completed && !upload.cleared) this.#clear(upload).catch(() => undefined);
      else if (!upload.completed && now - upload.activeAtMs >= this.#ttlMs) {
        this.abort(upload.uploadId).catch(() => undefined);
      }
    }
  }

  async #store(upload: Upload, partNumber: number, body: Readable, signal: AbortSignal): Promise<StoredPart> {
    const { files } = this.#machine.guest;
    const file = `${partNumber}-${randomToken(8)}`;
    if (!upload.hasDirectory) await asWriteFailure(this.#makeDirectory(upload));
    const { etag, sizeBytes } = await asWriteFailure(writeMeasured(files, partPath(upload, file), body, signal));
    try {
      signal.throwIfAborted();
      const part = { partNumber, etag, sizeBytes, uploadedAt: new Date().toISOString(), file };
      this.#journal.appendPart(upload, part);
      const replaced = upload.parts.get(partNumber);
      upload.parts.set(partNumber, part);
      if (replaced !== undefined) await files.remove(partPath(upload, replaced.file)).catch(() => undefined);
      return part;
    } catch (error) {
      await files.remove(partPath(upload, file)).catch(() => undefined);
      throw error;
    }
  }

  /** Of the sandbox's users only the one that serves files may look into it. */
  async #makeDirectory(upload: Upload): Promise<void> {
    const { files } = this.#machine.guest;
    await files.makeDirectory(this.#partsRoot, 0o700);
    await files.makeDirectory(upload.partsDirectory, 0o700);
    upload.hasDirectory = true;
  }

  async #publish(upload: Upload, parts: readonly StoredPart[]): Promise<void> {
    const { files } = this.#machine.guest;
    const wasInterrupted = upload.completing !== undefined;
    try {
      await verifyParts(files, upload.partsDirectory, parts);
      const sizeBytes = parts.reduce((sum, part) => sum + part.sizeBytes, 0);
      this.#journal.append(upload.uploadId, { kind: "completing", sizeBytes });
      upload.completing = { sizeBytes };
      const sources = parts.map(({ file }) => partPath(upload, file));
      await asWriteFailure(files.concatenate(upload.path, sources, { mode: upload.mode }));
    } catch (error) {
      // Parts go only after the file is in its place, which an earlier completion may have done unheard, and may still be doing.
      if (!wasInterrupted || !(await consistsOf(files, upload.path, parts))) throw error;
    }
  }

  async #clear(upload: Upload): Promise<void> {
    await this.#removeParts(upload);
    upload.parts.clear();
    upload.cleared = true;
    this.#journal.rewrite(upload);
  }

  async #removeParts(upload: Upload): Promise<void> {
    try {
      await this.#machine.guest.files.remove(upload.partsDirectory, { recursive: true });
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== "not_found") throw error;
    }
  }

  /** Nothing is received meanwhile; when it fails the upload goes on. */
  async #whileEnding(upload: Upload, ending: "complete" | "abort", work: () => Promise<void>): Promise<void> {
    if (upload.ending !== undefined) throw new AppError("conflict", "The upload is being completed or aborted.");
    upload.ending = ending;
    upload.stop.abort(new AppError("conflict", `The upload is being ${ending === "abort" ? "aborted" : "completed"}.`));
    try {
      await Promise.all(upload.receiving);
      await work();
    } finally {
      upload.ending = undefined;
      upload.stop = new AbortController();
      upload.activeAtMs = Date.now();
    }
  }

  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#publishing.then(work);
    this.#publishing = turn.catch(() => undefined);
    return turn;
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
    const times = [record.initiatedAt, ...[...record.parts.values()].map(({ uploadedAt }) => uploadedAt)];
    const upload = {
      ...record,
      partsDirectory: `${this.#partsRoot}/${record.uploadId}`,
      ending: undefined,
      receiving: new Set<Promise<unknown>>(),
      stop: new AbortController(),
      hasDirectory: false,
      activeAtMs: times.reduce((latest, time) => Math.max(latest, Date.parse(time)), 0),
    };
    this.#uploads.set(record.uploadId, upload);
    return upload;
  }

  #forgetOldCompleted(): void {
    const completed = [...this.#uploads.values()].filter((upload) => upload.completed && upload.cleared);
    for (const { uploadId } of completed.slice(0, Math.max(0, completed.length - completedMax))) {
      this.#uploads.delete(uploadId);
      this.#journal.remove(uploadId);
    }
  }
}

/** A small part travels with its request, a larger one as it comes. */
async function writeMeasured(
  files: GuestFiles,
  path: string,
  body: Readable,
  signal: AbortSignal,
): Promise<{ etag: string; sizeBytes: number }> {
  const small = await takeSmallFile(body);
  const md5 = createHash("md5");
  if (small !== undefined) {
    await files.write(path, small, { mode: 0o600, signal });
    return { etag: md5.update(small).digest("hex"), sizeBytes: small.length };
  }
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
  await files.write(path, body.pipe(measured), { mode: 0o600, signal });
  return { etag: md5.digest("hex"), sizeBytes };
}

function partPath({ partsDirectory }: Upload, file: string): string {
  return `${partsDirectory}/${file}`;
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
