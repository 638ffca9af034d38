// Reads a file of moderate size whole before anything is answered: one that shrinks meanwhile, or whose size is not what it says, is answered as it was read.
import type { Readable } from "node:stream";
import { AppError } from "../../core/errors.ts";
import type { FileInfo, GuestFiles } from "../machine.ts";

/** No more than a stream of the file would hold in memory on its way. */
export const smallFileMaxBytes = 256 * 1024;
const attempts = 3;

export type OpenedFile = { info: FileInfo; body: Readable };
export type WholeFile = { info: FileInfo; bytes: Buffer };

/**
 * The bytes of a file that was opened. When there are fewer than its size says it is opened again: two reads that end at the same
 * place are what there is, as in files of /sys; a file that is written over and over is given up.
 */
export async function readSmallFile(files: GuestFiles, path: string, opened: OpenedFile): Promise<WholeFile> {
  let shorter: number | undefined;
  let { info, body } = opened;
  for (let attempt = 1; ; attempt += 1) {
    const { bytes, isWhole } = await collect(body);
    if (isWhole || bytes.length === shorter) return { info: { ...info, sizeBytes: bytes.length }, bytes };
    shorter = bytes.length;
    if (attempt === attempts) throw new AppError("unprocessable", `'${path}' keeps changing while it is read.`);
    ({ info, body } = await files.read(path, { offset: 0, length: smallFileMaxBytes }));
  }
}

async function collect(body: Readable): Promise<{ bytes: Buffer; isWhole: boolean }> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) chunks.push(chunk);
    return { bytes: Buffer.concat(chunks), isWhole: true };
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "conflict") throw error;
    return { bytes: Buffer.concat(chunks), isWhole: false };
  }
}
