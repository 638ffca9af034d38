// Compares what lies inside the sandbox with the sizes and digests of the parts that were received.
import { createHash } from "node:crypto";
import type { Readable } from "node:stream";
import { AppError } from "../../core/errors.ts";
import type { GuestFiles } from "../machine.ts";
import type { StoredPart } from "./upload-journal.ts";

const atOnce = 4;

/** Parts lie where the sandbox's own processes can reach them: what was changed or removed is refused. */
export async function verifyParts(files: GuestFiles, directory: string, parts: readonly StoredPart[]): Promise<void> {
  const sizes = await storedSizes(files, directory, parts.length);
  for (const { partNumber, file, sizeBytes } of parts) {
    const found = sizes.get(file);
    if (found === undefined) throw refusal(partNumber, "is missing");
    if (found !== sizeBytes) throw refusal(partNumber, `has ${found} bytes instead of ${sizeBytes}`);
  }
  const queue = parts.values();
  const worker = async (): Promise<void> => {
    for (const part of queue) await verifyDigest(files, directory, part);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, parts.length) }, worker));
}

/** Whether a file is exactly these parts, one after the other. */
export async function consistsOf(files: GuestFiles, path: string, parts: readonly StoredPart[]): Promise<boolean> {
  const sizeBytes = parts.reduce((sum, part) => sum + part.sizeBytes, 0);
  try {
    const { info, body } = await files.read(path);
    if (info.sizeBytes !== sizeBytes) {
      body.destroy();
      return false;
    }
    return (await digestsOf(body, parts)).every((digest, index) => digest === parts[index]!.etag);
  } catch (error) {
    // Not there, no file, or changed while it was read: something else than these parts.
    if (error instanceof AppError && ["not_found", "unprocessable", "conflict"].includes(error.code)) return false;
    throw error;
  }
}

async function storedSizes(
  files: GuestFiles,
  directory: string,
  expected: number,
): Promise<ReadonlyMap<string, number>> {
  try {
    // Replaced and interrupted parts may lie there, too.
    const entries = await files.list(directory, expected * 2 + 10_000);
    return new Map(entries.filter(({ type }) => type === "file").map(({ name, sizeBytes }) => [name, sizeBytes]));
  } catch (error) {
    if (error instanceof AppError && error.code === "not_found") return new Map();
    throw error;
  }
}

async function verifyDigest(files: GuestFiles, directory: string, part: StoredPart): Promise<void> {
  const { partNumber, file, sizeBytes, etag } = part;
  try {
    const { body } = await files.read(`${directory}/${file}`, { offset: 0, length: sizeBytes });
    const [digest] = await digestsOf(body, [part]);
    if (digest !== etag) throw refusal(partNumber, "has other content than was uploaded");
  } catch (error) {
    if (error instanceof AppError && error.code === "not_found") throw refusal(partNumber, "is missing");
    if (error instanceof AppError && error.code === "conflict") throw refusal(partNumber, "was changed");
    throw error;
  }
}

/** MD5 of each part's stretch of a stream. */
async function digestsOf(body: Readable, parts: readonly StoredPart[]): Promise<string[]> {
  const digests: string[] = [];
  let hash = createHash("md5");
  let left = parts[0]?.sizeBytes ?? 0;
  const endFinished = (): void => {
    while (left === 0 && digests.length < parts.length) {
      digests.push(hash.digest("hex"));
      hash = createHash("md5");
      left = parts[digests.length]?.sizeBytes ?? 0;
    }
  };
  endFinished();
  for await (const chunk of body as AsyncIterable<Buffer>) {
    for (let at = 0; at < chunk.length && digests.length < parts.length; ) {
      const piece = chunk.subarray(at, at + left);
      hash.update(piece);
      at += piece.length;
      left -= piece.length;
      endFinished();
    }
  }
  return digests;
}

function refusal(partNumber: number, what: string): AppError {
  return new AppError("invalid_request", `Part ${partNumber} ${what} inside the sandbox; upload it again.`);
}
