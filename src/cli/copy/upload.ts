// Copies one file of this machine into a sandbox: small ones in one request, large ones in parts sent side by side, each verified.
import { createHash, type Hash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import { CliFailure } from "../failure.ts";
import type { Progress } from "./progress.ts";
import type { SandboxFiles, UploadedPart } from "./sandbox-files.ts";

/** One request is twice as fast as parts, which are written and then joined; but a part alone is repeated when a connection breaks. */
export const singleMaxBytes = 64 * 1024 * 1024;
const partMinBytes = 16 * 1024 * 1024;
const partsMax = 10_000;
const parallelMax = 3;
const readChunkBytes = 256 * 1024;

type Source = { file: FileHandle; path: string; sizeBytes: number };

export async function uploadFile(
  files: SandboxFiles,
  { source: path, target }: { source: string; target: string },
  progress: Progress,
): Promise<void> {
  await using file = await open(path, "r");
  const { size: sizeBytes, mode } = await file.stat();
  const source: Source = { file, path, sizeBytes };
  if (sizeBytes <= singleMaxBytes) return await uploadWhole(files, source, { target, mode }, progress);
  const uploadId = await files.initiateUpload(target, mode);
  try {
    await files.completeUpload(uploadId, await uploadParts(files, uploadId, source, progress));
  } catch (error) {
    await files.abortUpload(uploadId).catch(() => undefined);
    throw error;
  }
}

async function uploadWhole(
  files: SandboxFiles,
  source: Source,
  { target, mode }: { target: string; mode: number },
  progress: Progress,
): Promise<void> {
  const { sizeBytes } = source;
  if (sizeBytes > readChunkBytes) {
    const sending = new Sending(source, { start: 0, length: sizeBytes }, progress);
    await files.writeFile(target, () => sending.attempt(), sizeBytes, mode);
    return;
  }
  const chunks: Buffer[] = [];
  for await (const chunk of readRange(source, 0, sizeBytes)) chunks.push(chunk);
  const content = Buffer.concat(chunks);
  await files.writeFile(target, () => content, sizeBytes, mode);
  progress.add(sizeBytes);
}

async function uploadParts(
  files: SandboxFiles,
  uploadId: string,
  source: Source,
  progress: Progress,
): Promise<UploadedPart[]> {
  const partBytes = Math.max(partMinBytes, Math.ceil(source.sizeBytes / partsMax));
  const count = Math.ceil(source.sizeBytes / partBytes);
  const parts: UploadedPart[] = [];
  let next = 0;
  let failed = false;
  const work = async (): Promise<void> => {
    while (next < count && !failed) {
      const index = next++;
      const start = index * partBytes;
      const length = Math.min(partBytes, source.sizeBytes - start);
      parts[index] = await uploadPart(files, uploadId, index + 1, new Sending(source, { start, length }, progress));
    }
  };
  const workers = Array.from({ length: parallelMax }, () =>
    work().catch((error: unknown) => {
      failed = true;
      throw error;
    }),
  );
  // All have stopped before the caller aborts the upload and closes the file.
  const [failure] = (await Promise.allSettled(workers)).filter((result) => result.status === "rejected");
  if (failure !== undefined) throw failure.reason;
  return parts;
}

async function uploadPart(
  files: SandboxFiles,
  uploadId: string,
  partNumber: number,
  sending: Sending,
): Promise<UploadedPart> {
  const { etag } = await files.uploadPart(uploadId, partNumber, () => sending.attempt(), sending.length);
  if (/^[0-9a-f]{32}$/.test(etag) && etag !== sending.sum()) {
    throw new CliFailure("failure", `Part ${partNumber} arrived damaged.`, { remedy: "Copy it again." });
  }
  return { partNumber, etag };
}

/** A range of the file on its way. A retry sends it again, so its bytes are counted and summed apart from those it replaces. */
class Sending {
  readonly length: number;
  readonly #source: Source;
  readonly #start: number;
  readonly #progress: Progress;
  #current: { hash: Hash; bytes: number } | undefined;

  constructor(source: Source, range: { start: number; length: number }, progress: Progress) {
    this.#source = source;
    this.#start = range.start;
    this.length = range.length;
    this.#progress = progress;
  }

  async *attempt(): AsyncGenerator<Buffer> {
    this.#progress.add(-(this.#current?.bytes ?? 0));
    const mine = { hash: createHash("md5"), bytes: 0 };
    this.#current = mine;
    for await (const chunk of readRange(this.#source, this.#start, this.length)) {
      mine.hash.update(chunk);
      mine.bytes += chunk.length;
      if (mine === this.#current) this.#progress.add(chunk.length);
      yield chunk;
    }
  }

  /** MD5 of what the last attempt sent. */
  sum(): string | undefined {
    return this.#current?.hash.digest("hex");
  }
}

async function* readRange({ file, path }: Source, start: number, length: number): AsyncGenerator<Buffer> {
  for (let readBytes = 0; readBytes < length; ) {
    const chunk = Buffer.allocUnsafe(Math.min(readChunkBytes, length - readBytes));
    const { bytesRead } = await file.read(chunk, 0, chunk.length, start + readBytes).catch((error: Error) => {
      throw new CliFailure("failure", `${path} cannot be read: ${error.message}`, { cause: error });
    });
    if (bytesRead === 0) throw shrank(path);
    readBytes += bytesRead;
    yield chunk.subarray(0, bytesRead);
  }
}

function shrank(path: string): CliFailure {
  return new CliFailure("failure", `${path} became shorter while it was copied.`, { remedy: "Copy it again." });
}
