// Reads a journal from its beginning while it may still grow: a place in the files, never a copy of the output in memory.
import { close, open, read } from "node:fs";
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
    for (;;) {
      const segment = this.#journal.segments.find(({ sequence }) => sequence >= this.#sequence);
      if (segment !== undefined && segment.sequence !== this.#sequence) await this.#enter(segment.sequence);
      if (segment === undefined) return this.#atEnd();
      if (this.#position < segment.bytes) {
        const items = this.#items(this.#wanted(await this.#read(segment)));
        if (items.length > 0) return items;
        if (this.#position < segment.bytes) continue;
      }
      const last = this.#journal.segments.at(-1);
      if (last === undefined || last.sequence <= segment.sequence) return this.#atEnd();
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

  async #read(segment: Segment): Promise<JournalPiece[]> {
    const length = Math.min(segment.bytes - this.#position, recordMaxBytes + recordHeaderBytes);
    const buffer = Buffer.allocUnsafeSlow(length);
    try {
      this.#file ??= await openFile(this.#journal.segmentPath(segment.sequence), "r");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      await this.#enter(segment.sequence + 1);
      return [];
    }
    const { bytesRead } = await readFile(this.#file, buffer, 0, length, this.#position);
    const { pieces, consumedBytes } = decodeRecords(buffer.subarray(0, bytesRead));
    // Nothing whole where a record should stand: the rest of the segment is unreadable and shows as a jump.
    this.#position = pieces.length === 0 ? Number.MAX_SAFE_INTEGER : this.#position + consumedBytes;
    return pieces;
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
