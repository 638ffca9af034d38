// Follows a process's output for a client: what was written, then what is being written, until the process ends.
import type { StreamOffsets } from "./journal-format.ts";
import { JournalReader, type OutputItem, segmentAt } from "./journal-reader.ts";
import { type Process, waitForChange } from "./process.ts";
import type { ByteString } from "./send-stream.ts";

/** How output is written for a client. What it is given is only valid until it returns. */
export type Framer = { item(item: OutputItem): ByteString; keepalive(): ByteString; end(): ByteString };

export type FollowOptions = {
  framer: Framer;
  keepaliveMs: number;
  signal: AbortSignal;
  /** The process waits for this reader, so that nothing it writes is lost to it. */
  paced?: boolean;
  /** How much of each stream the reader has already. */
  from?: StreamOffsets;
  /** Told whenever there is output. */
  onOutput?: () => void;
};

/**
 * Framed output in order from the first byte that is asked for on, and a keepalive whenever nothing came for `keepaliveMs`. Ends with
 * the process or the signal. Of a client that does not read, one chunk is in memory: the rest stays in the journal.
 */
export async function* followOutput(
  process: Process,
  { framer, keepaliveMs, signal, paced = false, from = { stdout: 0, stderr: 0 }, onOutput }: FollowOptions,
): AsyncGenerator<ByteString> {
  await using reader = new JournalReader(process.journal, segmentAt(process.journal, from), from);
  using follower = paced ? process.pace.follow() : undefined;
  // A client that has stopped reading leaves this suspended at a yield, where only the signal is heard.
  signal.addEventListener("abort", () => follower?.[Symbol.dispose](), { once: true });
  const frame = (items: readonly OutputItem[]): { chunk: ByteString; bytes: number } => {
    const chunk = items.map((item) => framer.item(item)).join("");
    const bytes = items.reduce((sum, item) => sum + ("data" in item ? item.data.length : item.missingBytes), 0);
    return { chunk, bytes };
  };
  while (!signal.aborted) {
    const { version } = process.journal;
    const { hasEnded } = process;
    const taken = await reader.take(frame);
    if (taken !== undefined) {
      onOutput?.();
      if (taken.chunk.length > 0) yield taken.chunk;
      follower?.advance(taken.bytes);
      continue;
    }
    if (hasEnded) break;
    const outcome = await waitForChange(process, signal, { since: version, timeoutMs: keepaliveMs }).catch(
      () => "aborted",
    );
    if (outcome === "timeout") yield framer.keepalive();
  }
  if (!signal.aborted) yield framer.end();
}
