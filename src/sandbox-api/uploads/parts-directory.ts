// Where the parts of one multipart upload lie inside the sandbox, charged to it: stored, joined into their target, removed.
import { createHash } from "node:crypto";
import { type Readable, Transform } from "node:stream";
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import { takeSmallFile } from "../files/form-upload.ts";
import { asWriteFailure } from "../files/write-failure.ts";
import type { GuestFiles, Machine } from "../machine.ts";
import { consistsOf, verifyParts } from "./part-content.ts";
import type { StoredPart } from "./upload-journal.ts";

export class PartsDirectory {
  readonly #machine: Machine;
  readonly #root: string;
  readonly #uploadId: string;
  readonly #path: string;

  constructor(machine: Machine, root: string, uploadId: string) {
    this.#machine = machine;
    this.#root = root;
    this.#uploadId = uploadId;
    this.#path = `${root}/${uploadId}`;
  }

  /** A file of its own, so that one that replaces a part takes nothing from it before it is whole. */
  async store(
    partNumber: number,
    body: Readable,
    signal: AbortSignal,
  ): Promise<Pick<StoredPart, "file" | "etag" | "sizeBytes">> {
    const file = `${partNumber}-${randomToken(8)}`;
    await asWriteFailure(this.#make());
    const { files } = this.#machine.guest;
    return { file, ...(await asWriteFailure(writeMeasured(files, `${this.#path}/${file}`, body, signal))) };
  }

  /** Whatever is left of it goes with the directory. */
  async discard(file: string): Promise<void> {
    await this.#machine.guest.files.remove(`${this.#path}/${file}`).catch(() => undefined);
  }

  /** Refuses parts that are not what was received. */
  async verify(parts: readonly StoredPart[]): Promise<void> {
    await verifyParts(this.#machine.guest.files, this.#path, parts);
  }

  /** The target is the old file or all the parts, one after the other; they are gone then. */
  async join(target: string, mode: number, parts: readonly StoredPart[]): Promise<void> {
    const sources = parts.map(({ file }) => `${this.#path}/${file}`);
    await asWriteFailure(this.#machine.guest.files.concatenate(target, sources, { mode }));
  }

  /** Whether a target is these parts joined. */
  wasJoined(target: string, parts: readonly StoredPart[]): Promise<boolean> {
    return consistsOf(this.#machine.guest.files, target, parts);
  }

  async remove(): Promise<void> {
    try {
      await this.#machine.guest.files.remove(this.#path, { recursive: true });
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== "not_found") throw error;
    }
  }

  /** Of the sandbox's users only the one that serves files may look into it. Whatever happened inside since, each part meets it so. */
  async #make(): Promise<void> {
    const { files } = this.#machine.guest;
    await files.makeDirectory(this.#root, 0o700);
    await files.makeDirectory(this.#path, 0o700);
    const found = (await files.list(this.#root)).find(({ name }) => name === this.#uploadId);
    if (found?.type === "directory" && (found.mode & 0o077) === 0) return;
    const rule = "must be a directory of its own, closed to others; abort the upload and begin another";
    throw new AppError("unprocessable", `Inside the sandbox ${this.#path} was replaced: it ${rule}.`);
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
