// Multipart uploads of one sandbox. Parts lie inside the sandbox, charged to it; what is known about them lies on the host.
import { randomUUID } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import type { CompleteRequest } from "../../contract/sandbox-api/multipart.ts";
import { AppError } from "../../core/errors.ts";
import type { Machine } from "../machine.ts";
import { namedParts } from "./named-parts.ts";
import { PartsDirectory } from "./parts-directory.ts";
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
  directory: PartsDirectory;
  /** Set while it is completed or aborted: nothing else may touch it. */
  ending: "complete" | "abort" | undefined;
  receiving: Set<Promise<unknown>>;
  /** Ends what is being received. */
  stop: AbortController;
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
    namedParts(upload, named);
    await this.#whileEnding(upload, "complete", async () => {
      // One of them may have been replaced meanwhile.
      const parts = namedParts(upload, named);
      await this.#inTurn(() => this.#publish(upload, parts));
      this.#journal.append(uploadId, { kind: "completed" });
      upload.completed = true;
    });
    // The last to be forgotten, however long ago it was initiated.
    this.#uploads.delete(uploadId);
    this.#uploads.set(uploadId, upload);
    await this.#clear(upload).catch(() => undefined);
    this.#forgetOldCompleted();
    return upload;
  }

  /** Removes every part; the record goes last, so that a failed abort can be repeated. */
  async abort(uploadId: string): Promise<UploadRecord> {
    const upload = this.#open(uploadId);
    await this.#whileEnding(upload, "abort", async () => {
      await upload.directory.remove();
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
    const { directory, parts } = upload;
    const stored = await directory.store(partNumber, body, signal);
    try {
      signal.throwIfAborted();
      const part = { partNumber, ...stored, uploadedAt: new Date().toISOString() };
      this.#journal.appendPart(upload, part);
      const replaced = parts.get(partNumber);
      parts.set(partNumber, part);
      if (replaced !== undefined) await directory.discard(replaced.file);
      return part;
    } catch (error) {
      await directory.discard(stored.file);
      throw error;
    }
  }

  async #publish(upload: Upload, parts: readonly StoredPart[]): Promise<void> {
    const { directory, path, mode } = upload;
    const wasInterrupted = upload.completing !== undefined;
    try {
      await directory.verify(parts);
      const sizeBytes = parts.reduce((sum, part) => sum + part.sizeBytes, 0);
      this.#journal.append(upload.uploadId, { kind: "completing", sizeBytes });
      upload.completing = { sizeBytes };
      await directory.join(path, mode, parts);
    } catch (error) {
      // Parts go only after the file is in its place, which an earlier completion may have done unheard, and may still be doing.
      if (!wasInterrupted || !(await directory.wasJoined(path, parts))) throw error;
    }
  }

  async #clear(upload: Upload): Promise<void> {
    await upload.directory.remove();
    upload.parts.clear();
    upload.cleared = true;
    this.#journal.rewrite(upload);
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
      directory: new PartsDirectory(this.#machine, this.#partsRoot, record.uploadId),
      ending: undefined,
      receiving: new Set<Promise<unknown>>(),
      stop: new AbortController(),
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
