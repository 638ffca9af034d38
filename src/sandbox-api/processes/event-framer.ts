// Output as events: one JSON object a line.
import { isUtf8 } from "node:buffer";
import type { OutputStream } from "../machine.ts";
import { recordMaxBytes, type StreamOffsets } from "./journal-format.ts";
import type { OutputItem } from "./journal-reader.ts";
import { missingMarker } from "./output-tail.ts";
import { type ByteString, toByteString } from "./send-stream.ts";
import { escapedMaxBytes, escapeJson } from "./text-bytes.ts";

/** Of one stream: a record, before it what a cut character left of the one before. */
const textMaxBytes = recordMaxBytes + 3;
const headAndTailMaxBytes = 128;
/** Where an event is put together before its length is known. */
const draft = Buffer.allocUnsafeSlow(escapedMaxBytes(textMaxBytes) + headAndTailMaxBytes);
const heads = {
  stdout: Buffer.from('{"type":"stdout","data":"'),
  stderr: Buffer.from('{"type":"stderr","data":"'),
};

export const fromBeginning: StreamOffsets = { stdout: 0, stderr: 0 };

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

  item(item: OutputItem): ByteString {
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
    this.#cut[stream] = Buffer.from(bytes.subarray(whole));
    return whole === 0 ? "" : this.#output(stream, bytes.subarray(0, whole));
  }

  keepalive(): ByteString {
    return event("keepalive", "");
  }

  /** What is left of cut characters when no more comes. */
  end(): ByteString {
    return this.#flush("stdout") + this.#flush("stderr");
  }

  #flush(stream: OutputStream): ByteString {
    const rest = this.#cut[stream];
    this.#cut[stream] = Buffer.alloc(0);
    return rest.length === 0 ? "" : this.#output(stream, rest);
  }

  #output(stream: OutputStream, bytes: Buffer): ByteString {
    const offset = this.#at[stream];
    this.#at[stream] += bytes.length;
    const isText = isUtf8(bytes);
    if (!isText || bytes.length > textMaxBytes) {
      const exact = isText ? {} : { base64: bytes.toString("base64") };
      return event(stream, bytes.toString("utf8"), { offset, ...exact });
    }
    const begin = heads[stream].copy(draft);
    const end = escapeJson(bytes, draft, begin);
    return draft.toString("latin1", 0, end + draft.write(`","offset":${offset}}\n`, end, "latin1"));
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
): ByteString {
  return toByteString(Buffer.from(`${JSON.stringify({ type, data, ...more })}\n`));
}
