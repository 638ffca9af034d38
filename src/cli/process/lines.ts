// Splits a byte stream into lines, with a bound on the length of one.
import type { Readable } from "node:stream";

/** Yields each line without its end (LF or CRLF); a last line without an end is yielded too. */
export async function* readLines(stream: Readable, lineMaxBytes: number): AsyncGenerator<Buffer> {
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    let start = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      yield withoutReturn(Buffer.concat([...pending, chunk.subarray(start, end)]));
      pending = [];
      pendingBytes = 0;
      start = end + 1;
    }
    if (start === chunk.length) continue;
    pending.push(chunk.subarray(start));
    pendingBytes += chunk.length - start;
    if (pendingBytes > lineMaxBytes) throw new Error(`a line of the stream is longer than ${lineMaxBytes} bytes`);
  }
  if (pendingBytes > 0) yield withoutReturn(Buffer.concat(pending));
}

function withoutReturn(line: Buffer): Buffer {
  return line.at(-1) === 13 ? line.subarray(0, -1) : line;
}
