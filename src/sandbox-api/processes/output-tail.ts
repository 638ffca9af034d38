// The end of a process's output as text, as JSON answers carry it: bounded, whole characters, honest about what is missing.
import type { ProcessLogs } from "../../contract/sandbox-api/process.ts";
import type { OutputStream } from "../machine.ts";
import type { Journal, Segment } from "./journal.ts";
import { JournalReader } from "./journal-reader.ts";

/** Bytes of each stream in `GET /process/{id}` and in the result of a streamed run. */
export const inlineTailBytes = 64 * 1024;
/** Bytes of each stream in `GET /process/{id}/logs` and in the answer to a run that waits. */
export const logsTailBytes = 4 * 1024 * 1024;

type Kept = { stream: OutputStream; data: Buffer };

export function missingMarker(bytes: number): string {
  return `[... ${bytes} earlier bytes of this output are not in the log, which keeps the newest 32 MiB ...]\n`;
}

export function cutMarker(bytes: number, identifier: string): string {
  return `[... ${bytes} earlier bytes are not shown; the log is at /process/${encodeURIComponent(identifier)}/logs/stream ...]\n`;
}

/** Memory that an answer with this tail takes: the output twice (by stream and joined), as bytes, as text and as JSON. */
export function tailCost({ written }: Journal, maxBytes: number): number {
  return (Math.min(written.stdout, maxBytes) + Math.min(written.stderr, maxBytes)) * 6;
}

/** The newest `maxBytes` of each stream; `logs` is both in the order they were written. */
export async function readTail(journal: Journal, maxBytes: number, identifier: string): Promise<ProcessLogs> {
  const tail = await collect(journal, maxBytes);
  const text = (stream?: OutputStream): string => {
    const streams: OutputStream[] = stream === undefined ? ["stdout", "stderr"] : [stream];
    const cutBytes = streams.reduce((sum, name) => sum + tail.cutBytes[name], 0);
    const data = tail.kept.filter((kept) => stream === undefined || kept.stream === stream).map((kept) => kept.data);
    return (cutBytes > 0 ? cutMarker(cutBytes, identifier) : "") + Buffer.concat(data).toString("utf8");
  };
  return { stdout: text("stdout"), stderr: text("stderr"), logs: text() };
}

async function collect(journal: Journal, maxBytes: number) {
  const total = { ...journal.written };
  const from = firstNeeded(journal, maxBytes);
  const kept: Kept[] = [];
  const seen = { ...(from?.start ?? { stdout: 0, stderr: 0 }) };
  await using reader = new JournalReader(journal, from, seen);
  while (seen.stdout < total.stdout || seen.stderr < total.stderr) {
    const items = await reader.next();
    if (items.length === 0) break;
    for (const item of items) {
      if ("missingBytes" in item) {
        seen[item.stream] += item.missingBytes;
        continue;
      }
      const begin = seen[item.stream];
      seen[item.stream] = begin + item.data.length;
      const skip = Math.max(0, total[item.stream] - maxBytes - begin);
      const end = Math.max(0, Math.min(item.data.length, total[item.stream] - begin));
      if (skip < end) kept.push({ stream: item.stream, data: item.data.subarray(skip, end) });
    }
  }
  const cutBytes = { stdout: 0, stderr: 0 };
  for (const stream of ["stdout", "stderr"] as const) {
    alignStart(kept, stream, total[stream] > maxBytes);
    const shown = kept.reduce((sum, piece) => sum + (piece.stream === stream ? piece.data.length : 0), 0);
    cutBytes[stream] = total[stream] - shown;
  }
  return { kept, cutBytes };
}

/** The newest segment from which on both streams' tails are complete. */
function firstNeeded(journal: Journal, maxBytes: number): Segment | undefined {
  const { stdout, stderr } = journal.written;
  return journal.segments.findLast(({ start }) => {
    return (
      (start.stdout === 0 || start.stdout <= stdout - maxBytes) &&
      (start.stderr === 0 || start.stderr <= stderr - maxBytes)
    );
  });
}

/** A cut tail does not begin in the middle of a character. */
function alignStart(kept: Kept[], stream: OutputStream, isCut: boolean): void {
  const first = kept.find((piece) => piece.stream === stream);
  if (!isCut || first === undefined) return;
  let skip = 0;
  while (skip < 3 && skip < first.data.length && (first.data[skip]! & 0xc0) === 0x80) skip += 1;
  first.data = first.data.subarray(skip);
}
