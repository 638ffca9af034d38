// Asks about a process inside by its number, which another may have been given meanwhile.
import type { Readable } from "node:stream";
import { AppError } from "../../core/errors.ts";
import type { Machine } from "../machine.ts";

const statMaxBytes = 4_096;
const timeoutMs = 5_000;

/** When it began, in the kernel's ticks; undefined when there is none. */
export async function beginOf({ guest }: Machine, pid: number): Promise<string | undefined> {
  try {
    const { body } = await guest.files.read(`/proc/${pid}/stat`, { offset: 0, length: statMaxBytes });
    const text = await readText(body);
    // Its name may contain anything, and stands between the first and the last parenthesis.
    return /^ (?:\S+ ){19}(\d{1,20}) /.exec(text.slice(text.lastIndexOf(")") + 1))?.[1];
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    // The last is what the kernel says when it ends at this moment.
    if (error.code === "not_found" || error.details?.errno === "ESRCH") return undefined;
    throw error;
  }
}

async function readText(body: Readable): Promise<string> {
  const late = new AppError("timeout", "Reading about a process took too long.");
  const timer = setTimeout(() => body.destroy(late), timeoutMs);
  try {
    const pieces: Buffer[] = [];
    let bytes = 0;
    for await (const piece of body as AsyncIterable<Buffer>) {
      pieces.push(piece);
      bytes += piece.length;
      if (bytes >= statMaxBytes) break;
    }
    return Buffer.concat(pieces).toString("latin1");
  } finally {
    clearTimeout(timer);
  }
}
