// Output as lines of text, each after the name of its stream.
import type { OutputStream } from "../machine.ts";
import { recordMaxBytes } from "./journal-format.ts";
import type { OutputItem } from "./journal-reader.ts";
import { missingMarker } from "./output-tail.ts";
import type { ByteString } from "./send-stream.ts";
import { prefixedMaxBytes, prefixLines } from "./text-bytes.ts";

const newline = 10;
const prefixes = { stdout: Buffer.from("stdout:"), stderr: Buffer.from("stderr:") };
/** Where lines are put together before their length is known; the first byte is for a break before them. */
const draft = Buffer.allocUnsafeSlow(1 + prefixedMaxBytes(recordMaxBytes, prefixes.stdout));

/**
 * Lines of text, each after the name of its stream. A line that is not finished yet is sent as it grows and continued without a
 * second prefix; only when the other stream or a keepalive comes between is it broken by a newline the process did not write.
 */
export class LineFramer {
  #open: OutputStream | undefined;

  item(item: OutputItem): ByteString {
    if ("data" in item) return this.#frame(item.stream, item.data);
    const marker = Buffer.from(missingMarker(item.missingBytes));
    return this.#breakLine() + this.#frame(item.stream, marker);
  }

  keepalive(): ByteString {
    return `${this.#breakLine()}[keepalive]\n`;
  }

  /** A line that is not finished stays so. */
  end(): ByteString {
    return "";
  }

  #breakLine(): ByteString {
    const needsBreak = this.#open !== undefined;
    this.#open = undefined;
    return needsBreak ? "\n" : "";
  }

  #frame(stream: OutputStream, data: Buffer): ByteString {
    const prefix = prefixes[stream];
    const out =
      data.length <= recordMaxBytes ? draft : Buffer.allocUnsafeSlow(1 + prefixedMaxBytes(data.length, prefix));
    const isBroken = this.#open !== undefined && this.#open !== stream;
    if (isBroken) out[0] = newline;
    const end = prefixLines(data, { prefix, begins: this.#open !== stream }, out, isBroken ? 1 : 0);
    this.#open = data.at(-1) === newline ? undefined : stream;
    return out.toString("latin1", 0, end);
  }
}
