// Reads the head of an HTTP/1.1 response from a raw stream whose other end is hostile.
import type { Duplex } from "node:stream";
import { AppError } from "../../core/errors.ts";
import type { RawHeaders } from "./forwarded-headers.ts";

/** `rest` are the bytes that came after the head. */
export type ResponseHead = { status: number; headers: RawHeaders; rest: Buffer };

const headMaxBytes = 64 * 1024;
const headersMax = 200;

export async function readResponseHead(stream: Duplex, deadline: AbortSignal): Promise<ResponseHead> {
  let bytes: Buffer = Buffer.alloc(0);
  for (;;) {
    const end = bytes.indexOf("\r\n\r\n");
    if (end > headMaxBytes || (end === -1 && bytes.length > headMaxBytes)) {
      throw new AppError("upstream_failed", "its answer has too many headers");
    }
    if (end === -1) {
      bytes = Buffer.concat([bytes, await nextChunk(stream, deadline)]);
      continue;
    }
    const head = parseHead(bytes.toString("latin1", 0, end));
    const rest = bytes.subarray(end + 4);
    // Interim answers are skipped.
    if (head.status >= 200 || head.status === 101) return { ...head, rest };
    bytes = rest;
  }
}

function nextChunk(stream: Duplex, deadline: AbortSignal): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const settle = (end: () => void): void => {
      stream.off("readable", onReadable);
      stream.off("close", onClose);
      stream.off("end", onClose);
      deadline.removeEventListener("abort", onTimeout);
      end();
    };
    const onReadable = (): void => {
      const chunk = stream.read() as Buffer | null;
      if (chunk !== null) settle(() => resolve(chunk));
    };
    const onClose = (): void => settle(() => reject(new AppError("upstream_failed", "it closed the connection")));
    const onTimeout = (): void => settle(() => reject(new AppError("timeout", "The server did not answer in time.")));
    stream.on("readable", onReadable);
    stream.once("close", onClose);
    stream.once("end", onClose);
    deadline.addEventListener("abort", onTimeout, { once: true });
    if (deadline.aborted) onTimeout();
    else if (stream.readableEnded || stream.destroyed) onClose();
    else onReadable();
  });
}

function parseHead(text: string): { status: number; headers: RawHeaders } {
  const [statusLine, ...lines] = text.split("\r\n");
  const match = /^HTTP\/1\.[01] ([1-5]\d\d)(?: |$)/.exec(statusLine!);
  if (match === null || lines.length > headersMax) throw malformed();
  const headers: RawHeaders = [];
  for (const line of lines) {
    const field = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*$/.exec(line);
    if (field === null) throw malformed();
    headers.push(field[1]!, field[2]!);
  }
  return { status: Number(match[1]), headers };
}

function malformed(): AppError {
  return new AppError("upstream_failed", "its answer is not HTTP");
}
