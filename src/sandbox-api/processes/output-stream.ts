// Streams of a process's output to a client: what was written, then what is being written, until the process ends.
import { isUtf8 } from "node:buffer";
import type { OutputStream } from "../machine.ts";
import type { StreamOffsets } from "./journal-format.ts";
import { JournalReader, type OutputItem, segmentAt } from "./journal-reader.ts";
import { missingMarker } from "./output-tail.ts";
import { type Process, waitForChange } from "./process.ts";

const newline = 10;
export const keepalive = Symbol("keepalive");

export type FollowOptions = {
  keepaliveMs: number;
  signal: AbortSignal;
  /** The process waits for this reader, so that nothing it writes is lost to it. */
  paced?: boolean;
  /** How much of each stream the reader has already. */
  from?: StreamOffsets;
};

export const fromBeginning: StreamOffsets = { stdout: 0, stderr: 0 };

/** Items in order from the first byte that is asked for on; `keepalive` whenever nothing came for `keepaliveMs`. Ends with the process or the signal. */
export async function* followOutput(
  process: Process,
  { keepaliveMs, signal, paced = false, from = fromBeginning }: FollowOptions,
): AsyncGenerator<OutputItem | typeof keepalive> {
  await using reader = new JournalReader(process.journal, segmentAt(process.journal, from), from);
  using follower = paced ? process.pace.follow() : undefined;
  // A client that has stopped reading leaves this suspended at a yield, where only the signal is heard.
  signal.addEventListener("abort", () => follower?.[Symbol.dispose](), { once: true });
  while (!signal.aborted) {
    const { version } = process.journal;
    const { hasEnded } = process;
    const items = await reader.next();
    for (const item of items) {
      yield item;
      follower?.advance("data" in item ? item.data.length : item.missingBytes);
    }
    if (items.length > 0) continue;
    if (hasEnded) return;
    const outcome = await waitForChange(process, signal, { since: version, timeoutMs: keepaliveMs }).catch(
      () => "aborted",
    );
    if (outcome === "timeout") yield keepalive;
  }
}

/**
 * Lines of text, each after the name of its stream. A line that is not finished yet is sent as it grows and continued without a
 * second prefix; only when the other stream or a keepalive comes between is it broken by a newline the process did not write.
 */
export class LineFramer {
  #open: OutputStream | undefined;

  item(item: OutputItem): Buffer {
    if ("data" in item) return this.#frame(item.stream, item.data);
    const marker = Buffer.from(missingMarker(item.missingBytes));
    return Buffer.concat([this.breakLine(), this.#frame(item.stream, marker)]);
  }

  keepalive(): Buffer {
    return Buffer.concat([this.breakLine(), Buffer.from("[keepalive]\n")]);
  }

  breakLine(): Buffer {
    const needsBreak = this.#open !== undefined;
    this.#open = undefined;
    return Buffer.from(needsBreak ? "\n" : "");
  }

  #frame(stream: OutputStream, data: Buffer): Buffer {
    const prefix = Buffer.from(`${stream}:`);
    const parts: Buffer[] = [];
    if (this.#open !== undefined && this.#open !== stream) parts.push(this.breakLine());
    for (let begin = 0; begin < data.length; ) {
      const found = data.indexOf(newline, begin);
      const end = found === -1 ? data.length : found + 1;
      if (this.#open === undefined) parts.push(prefix);
      parts.push(data.subarray(begin, end));
      this.#open = found === -1 ? stream : undefined;
      begin = end;
    }
    return Buffer.concat(parts);
  }
}

/**
 * One JSON object a line, `{type, data, offset}`; characters that a chunk cuts are completed by the next one. Bytes that are not UTF-8
 * stand in `data` as replacement characters and exactly in an additional `base64`; output that is lost is counted in `missingBytes`.
 * `offset` is the place of the first byte in its stream: with the length of what it had last, a reader knows where to go on.
 */
export class EventFramer {
  readonly #at: StreamOffsets;
  readonly #cut: Record<OutputStream, Buffer> = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };

  constructor(from = fromBeginning) {
    this.#at = { ...from };
  }

  item(item: OutputItem): string {
    const { stream } = item;
    if ("missingBytes" in item) {
      const { missingBytes } = item;
      const flushed = this.#flush(stream);
      const offset = this.#at[stream];
      this.#at[stream] += missingBytes;
      return flushed + event(stream, missingMarker(missingBytes), { offset, missingBytes });
    }
    const bytes = this.#cut[stream].length === 0 ? item.data : Buffer.concat([this.#cut[stream], item.data]);
    const whole = bytes.length - cutCharacterBytes(bytes);
    this.#cut[stream] = bytes.subarray(whole);
    return whole === 0 ? "" : this.#output(stream, bytes.subarray(0, whole));
  }

  /** What is left of cut characters when no more comes. */
  end(): string {
    return this.#flush("stdout") + this.#flush("stderr");
  }

  #flush(stream: OutputStream): string {
    const rest = this.#cut[stream];
    this.#cut[stream] = Buffer.alloc(0);
    return rest.length === 0 ? "" : this.#output(stream, rest);
  }

  #output(stream: OutputStream, bytes: Buffer): string {
    const offset = this.#at[stream];
    this.#at[stream] += bytes.length;
    return event(stream, bytes.toString("utf8"), {
      offset,
      ...(isUtf8(bytes) ? {} : { base64: bytes.toString("base64") }),
    });
  }
}

/** How many bytes at the end begin a UTF-8 character that is not complete; 0 when they never could. */
function cutCharacterBytes(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back]!;
    if ((byte & 0xc0) === 0x80) continue;
    const length =
      byte >= 0xf0 && byte <= 0xf4 ? 4 : byte >= 0xe0 && byte < 0xf0 ? 3 : byte >= 0xc2 && byte < 0xe0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

export function event(
  type: OutputStream | "keepalive" | "result" | "error",
  data: string,
  more?: { offset: number; base64?: string; missingBytes?: number },
): string {
  return `${JSON.stringify({ type, data, ...more })}\n`;
}
