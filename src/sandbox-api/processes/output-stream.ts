// Streams of a process's output to a client: what was written, then what is being written, until the process ends.
import { StringDecoder } from "node:string_decoder";
import type { OutputStream } from "../machine.ts";
import { JournalReader, type OutputItem } from "./journal-reader.ts";
import { missingMarker } from "./output-tail.ts";
import { type Process, waitForChange } from "./process.ts";

const newline = 10;
export const keepalive = Symbol("keepalive");

/** Items in order from the first byte on; `keepalive` whenever nothing came for `keepaliveMs`. Ends with the process or the signal. */
export async function* followOutput(
  process: Process,
  keepaliveMs: number,
  signal: AbortSignal,
): AsyncGenerator<OutputItem | typeof keepalive> {
  await using reader = new JournalReader(process.journal);
  while (!signal.aborted) {
    const { version } = process.journal;
    const { hasEnded } = process;
    const items = await reader.next();
    if (items.length > 0) {
      yield* items;
      continue;
    }
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

/** One JSON object a line, `{type, data}`; characters that a chunk cuts are completed by the next one. */
export class EventFramer {
  readonly #decoders = { stdout: new StringDecoder("utf8"), stderr: new StringDecoder("utf8") };

  item(item: OutputItem): string {
    const { stream } = item;
    const text = "data" in item ? this.#decoders[stream].write(item.data) : missingMarker(item.missingBytes);
    return text === "" ? "" : event(stream, text);
  }

  /** What is left of cut characters when no more comes. */
  end(): string {
    return (["stdout", "stderr"] as const)
      .map((stream) => [stream, this.#decoders[stream].end()] as const)
      .filter(([, rest]) => rest !== "")
      .map(([stream, rest]) => event(stream, rest))
      .join("");
  }
}

export function event(type: OutputStream | "keepalive" | "result" | "error", data: string): string {
  return `${JSON.stringify({ type, data })}\n`;
}
