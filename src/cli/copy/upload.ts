// Copies one file of this machine into a sandbox: small ones in one request, large ones in parts sent side by side, each verified.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { type Readable, Transform } from "node:stream";
import { CliFailure } from "../failure.ts";
import type { Progress } from "./progress.ts";
import type { SandboxFiles, UploadedPart } from "./sandbox-files.ts";

export const partMinBytes = 5 * 1024 * 1024;
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
  if (sizeBytes <= partMinBytes) {
    const content = await readPart(source, 0, sizeBytes);
    await files.writeFile(target, () => content, sizeBytes, mode);
    progress.add(sizeBytes);
    return;
  }
  const uploadId = await files.initiateUpload(target, mode);
  try {
    await files.completeUpload(uploadId, await uploadParts(files, uploadId, source, progress));
  } catch (error) {
    await files.abortUpload(uploadId).catch(() => undefined);
    throw error;
  }
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
      parts[index] = await uploadPart(files, uploadId, index + 1, { source, start, length, progress });
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
  { source, start, length, progress }: { source: Source; start: number; length: number; progress: Progress },
): Promise<UploadedPart> {
  let hash = createHash("md5");
  let sentBytes = 0;
  const { etag } = await files.uploadPart(
    uploadId,
    partNumber,
    () => {
      // A retry sends the part again, so its bytes are counted and summed from the beginning.
      progress.add(-sentBytes);
      sentBytes = 0;
      hash = createHash("md5");
      const count = new Transform({
        transform(chunk: Buffer, _, done) {
          hash.update(chunk);
          sentBytes += chunk.length;
          progress.add(chunk.length);
          done(undefined, chunk);
        },
        flush(done) {
          done(sentBytes === length ? undefined : shrank(source.path));
        },
      });
      return readRange(source, start, length, count);
    },
    length,
  );
  const sum = hash.digest("hex");
  if (/^[0-9a-f]{32}$/.test(etag) && etag !== sum) {
    throw new CliFailure("failure", `Part ${partNumber} of ${source.path} arrived damaged.`, {
      remedy: "Copy it again.",
    });
  }
  return { partNumber, etag };
}

function readRange(source: Source, start: number, length: number, through: Transform): Readable {
  const stream = createReadStream(source.path, {
    // The stream borrows the descriptor: it stays open for the other parts.
    fd: source.file,
    autoClose: false,
    start,
    end: start + length - 1,
    highWaterMark: readChunkBytes,
  });
  stream.on("error", (error) => through.destroy(error));
  through.on("close", () => stream.destroy());
  return stream.pipe(through);
}

async function readPart({ file, path }: Source, start: number, length: number): Promise<Buffer> {
  const content = Buffer.allocUnsafe(length);
  let readBytes = 0;
  while (readBytes < length) {
    const { bytesRead } = await file.read(content, readBytes, length - readBytes, start + readBytes);
    if (bytesRead === 0) throw shrank(path);
    readBytes += bytesRead;
  }
  return content;
}

function shrank(path: string): CliFailure {
  return new CliFailure("failure", `${path} became shorter while it was copied.`, { remedy: "Copy it again." });
}
