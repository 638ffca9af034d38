// Reads a journal from its beginning while it may still grow: a place in the files, never a copy of the output in memory.
import { close, open, read, readSync } from "node:fs";
import { promisify } from "node:util";
import type { OutputStream } from "../machine.ts";
import type { Journal, Segment } from "./journal.ts";
import {
  decodeRecords,
  type JournalPiece,
  recordHeaderBytes,
  recordMaxBytes,
  type StreamOffsets,
  segmentHeaderBytes,
} from "./journal-format.ts";

const openFile = promisify(open);
const closeFile = promisify(close);
const readFile = promisify(read);

const readMaxBytes = recordMaxBytes + recordHeaderBytes;
/** What every reader reads into that does not have to wait for it. */
const shared = Buffer.allocUnsafeSlow(readMaxBytes);

/** What a reader gets: bytes, or the count of bytes that are no longer there. */
export type OutputItem = { stream: OutputStream; data: Buffer } | { stream: OutputStream; missingBytes: number };

/** The newest segment that has everything from these offsets on. */
export function segmentAt({ segments }: Journal, { stdout, stderr }: StreamOffsets): Segment | undefined {
  return segments.findLast(({ start }) => start.stdout <= stdout && start.stderr <= stderr);
}

export class JournalReader implements AsyncDisposable {
  readonly #journal: Journal;
  readonly #expected: StreamOffsets;
  #file: number | undefined;
  #sequence: number;
  #position = segmentHeaderBytes;

  /** Begins at the segment `from`, else at the oldest. Of each stream the bytes from `expected` on are wanted: earlier ones are skipped. */
  constructor(journal: Journal, from?: Segment, expected: StreamOffsets = { stdout: 0, stderr: 0 }) {
    this.#journal = journal;
    this.#expected = { ...expected };
    this.#sequence = from?.sequence ?? 0;
  }

  /** The next pieces in order; empty at the present end of the journal. */
  async next(): Promise<OutputItem[]> {
    const copy = (item: OutputItem): OutputItem => ("data" in item ? { ...item, data: Buffer.from(item.data) } : item);
    return (await this.take((items) => items.map(copy))) ?? [];
  }

  /** As `next`, without memory of its own: `use` gets the pieces at once, and they are valid until it returns. Undefined at the end. */
  async take<Made>(use: (items: OutputItem[]) => Made): Promise<Made | undefined> {
    for (;;) {
      const segment = this.#journal.segments.find(({ sequence }) => sequence >= this.#sequence);
      if (segment !== undefined && segment.sequence !== this.#sequence) await this.#enter(segment.sequence);
      if (segment === undefined) return this.#takeEnd(use);
      if (this.#position < segment.bytes) {
        const used = await this.#read(segment, use);
        if (used !== undefined) return used.made;
        if (this.#position < segment.bytes) continue;
      }
      const last = this.#journal.segments.at(-1);
      if (last === undefined || last.sequence <= segment.sequence) return this.#takeEnd(use);
      await this.#enter(segment.sequence + 1);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    if (file !== undefined) await closeFile(file);
  }

  async #enter(sequence: number): Promise<void> {
    await this[Symbol.asyncDispose]();
    this.#sequence = sequence;
    this.#position = segmentHeaderBytes;
  }

  /** Undefined when nothing that is wanted was read. */
  async #read<Made>(segment: Segment, use: (items: OutputItem[]) => Made): Promise<{ made: Made } | undefined> {
    const length = Math.min(segment.bytes - this.#position, readMaxBytes);
    try {
      this.#file ??= await openFile(this.#journal.segmentPath(segment.sequence), "r");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      await this.#enter(segment.sequence + 1);
      return undefined;
    }
    // From here to the end nothing waits, when it is the shared memory that is read into.
    const isFresh = this.#journal.isFresh(segment.sequence, this.#position);
    const buffer = isFresh ? shared : Buffer.allocUnsafeSlow(length);
    const bytesRead = isFresh
      ? readSync(this.#file, buffer, 0, length, this.#position)
      : (await readFile(this.#file, buffer, 0, length, this.#position)).bytesRead;
    const { pieces, consumedBytes } = decodeRecords(buffer.subarray(0, bytesRead));
    // Nothing whole where a record should stand: the rest of the segment is unreadable and shows as a jump.
    this.#position = pieces.length === 0 ? Number.MAX_SAFE_INTEGER : this.#position + consumedBytes;
    const items = this.#items(this.#wanted(pieces));
    return items.length === 0 ? undefined : { made: use(items) };
  }

  #wanted(pieces: readonly JournalPiece[]): JournalPiece[] {
    return pieces.flatMap(({ stream, offset, data }) => {
      const skip = Math.max(0, this.#expected[stream] - offset);
      return skip >= data.length ? [] : [{ stream, offset: offset + skip, data: data.subarray(skip) }];
    });
  }

  /** Neighbours of one stream become one item: a program that writes line by line is not answered line by line. */
  #items(pieces: readonly JournalPiece[]): OutputItem[] {
    const items: OutputItem[] = [];
    let run: Buffer[] = [];
    for (const [index, { stream, offset, data }] of pieces.entries()) {
      const missingBytes = offset - this.#expected[stream];
      if (missingBytes > 0) items.push({ stream, missingBytes });
      this.#expected[stream] = offset + data.length;
      run.push(data);
      const next = pieces[index + 1];
      if (next !== undefined && next.stream === stream && next.offset === offset + data.length) continue;
      items.push({ stream, data: run.length === 1 ? data : Buffer.concat(run) });
      run = [];
    }
    return items;
  }

  #takeEnd<Made>(use: (items: OutputItem[]) => Made): Made | undefined {
    const items = this.#atEnd();
    return items.length === 0 ? undefined : use(items);
  }

  #atEnd(): OutputItem[] {
    const items: OutputItem[] = [];
    for (const stream of ["stdout", "stderr"] as const) {
      const missingBytes = this.#journal.written[stream] - this.#expected[stream];
      if (missingBytes <= 0) continue;
      items.push({ stream, missingBytes });
      this.#expected[stream] += missingBytes;
    }
    return items;
  }
}
