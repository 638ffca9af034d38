// The output of one process on disk: appended in order, rotated at a cap, exact about its length after a crash.
import { close, open, rmSync, writev } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { OutputStream } from "../machine.ts";
import {
  encodeRecordHeader,
  encodeSegmentHeader,
  recordHeaderBytes,
  recordMaxBytes,
  type StreamOffsets,
  segmentHeaderBytes,
} from "./journal-format.ts";

export const segmentMaxBytes = 4 * 1024 * 1024;
/** Segments kept of one process: the newest 32 MiB. */
export const segmentsMax = 8;
const batchMaxBytes = 1024 * 1024;
const batchRecordsMax = 500;
const retryDelayMs = 1_000;
/** How finely it is known when something was written, and for how long that is fresh. */
const markMs = 1_000;
const freshMs = 10_000;

const openFile = promisify(open);
const closeFile = promisify(close);
const writeBuffers = (file: number, buffers: Buffer[], position: number): Promise<number> =>
  new Promise((resolve, reject) => {
    writev(file, buffers, position, (error, written) => (error === null ? resolve(written) : reject(error)));
  });

/** A file of the journal. `bytes` counts what is known to be written. */
export type Segment = { sequence: number; start: StreamOffsets; bytes: number };
export type JournalState = {
  segments: Segment[];
  written: StreamOffsets;
  /** Whether the newest byte of the standard output ends a line; nothing written does. */
  endsLine?: boolean;
};

const newline = 10;

/** What was written from this place on is no older than this. */
type Mark = { sequence: number; position: number; atMs: number };

type Pending = { stream: OutputStream; offset: number; data: Buffer; settle?: (error?: unknown) => void };

const recordBytes = ({ data }: Pending): number => recordHeaderBytes + data.length;

export class Journal {
  readonly directory: string;
  readonly token: string;
  readonly segments: Segment[];
  /** Bytes of each stream known to be in files: what readers may see and what is acknowledged. */
  readonly written: StreamOffsets;
  /** Rises with everything a reader could notice. */
  version = 0;
  endsLine: boolean;
  readonly #accepted: StreamOffsets;
  readonly #log: Logger;
  readonly #onWritten: (bytes: number) => void;
  readonly #waiting = new Set<() => void>();
  #pending: Pending[] = [];
  #writing: Promise<void> | undefined;
  #file: number | undefined;
  #closed = false;
  /** Why what was appended last never got into a file. */
  #failure: unknown;
  #marks: Mark[] = [];

  constructor(
    place: { directory: string; token: string },
    state: JournalState,
    options: { log: Logger; onWritten: (bytes: number) => void },
  ) {
    this.directory = place.directory;
    this.token = place.token;
    this.segments = state.segments;
    this.written = state.written;
    this.endsLine = state.endsLine ?? true;
    this.#accepted = { ...state.written };
    this.#log = options.log;
    this.#onWritten = options.onWritten;
  }

  get bytes(): number {
    return this.segments.reduce((sum, segment) => sum + segment.bytes, 0);
  }

  segmentPath(sequence: number): string {
    return segmentPath(this.directory, this.token, sequence);
  }

  /** Whether it was written so lately that it is in memory: reading it waits for no disk. */
  isFresh(sequence: number, position: number): boolean {
    const sinceMs = performance.now() - freshMs;
    return this.#marks.some((mark) => {
      const isAfter = sequence === mark.sequence ? position >= mark.position : sequence > mark.sequence;
      return isAfter && mark.atMs > sinceMs;
    });
  }

  /** Resolves once the bytes are in the file; bytes that were appended before are skipped by their offset. */
  append(stream: OutputStream, offset: number, chunk: Buffer): Promise<void> {
    if (this.#closed) return Promise.reject(new AppError("unavailable", "The log of the process is closed."));
    const known = this.#accepted[stream];
    const begin = Math.max(offset, known);
    const data = chunk.subarray(Math.min(chunk.length, begin - offset));
    if (data.length === 0) return this.flush();
    this.#accepted[stream] = begin + data.length;
    if (stream === "stdout") this.endsLine = data.at(-1) === newline;
    return new Promise((resolve, reject) => {
      for (let position = 0; position < data.length; position += recordMaxBytes) {
        const part = data.subarray(position, position + recordMaxBytes);
        this.#pending.push({ stream, offset: begin + position, data: part });
      }
      this.#pending.at(-1)!.settle = (error) => (error === undefined ? resolve() : reject(error));
      this.#startWriting();
    });
  }

  /** Resolves when everything appended so far is in files, rejects when it was closed before. */
  async flush(): Promise<void> {
    await this.#writing;
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Writes what is pending and gives the descriptor back; readers keep working. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#writing;
    await this.#closeFile();
    this.changed();
  }

  /** Deletes the oldest segment, or all of them; readers see a jump. Returns the freed bytes. */
  drop(which: "oldest" | "all"): number {
    let freedBytes = 0;
    while (this.segments.length > (which === "all" ? 0 : 1)) {
      const segment = this.segments.shift()!;
      rmSync(this.segmentPath(segment.sequence), { force: true });
      freedBytes += segment.bytes;
      if (which === "oldest") break;
    }
    if (freedBytes > 0) this.#onWritten(-freedBytes);
    return freedBytes;
  }

  changed(): void {
    this.version += 1;
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  /** Calls back at the next change; the returned function forgets it. */
  onChange(wake: () => void): () => void {
    this.#waiting.add(wake);
    return () => this.#waiting.delete(wake);
  }

  #startWriting(): void {
    this.#writing ??= this.#drain();
  }

  /** Ends in the turn that finds nothing pending, so that an append in the next one starts it again. */
  async #drain(): Promise<void> {
    while (this.#pending.length > 0) {
      const batch = this.#takeBatch();
      // What comes after bytes that are not there must not be there either.
      this.#failure ??= await this.#writeUntilDone(batch);
      for (const { settle } of batch) settle?.(this.#failure);
      this.changed();
    }
    this.#writing = undefined;
  }

  /** Tries again until the journal is closed: the process blocks on its unacknowledged window meanwhile, nothing is lost. */
  async #writeUntilDone(batch: readonly Pending[]): Promise<unknown> {
    for (;;) {
      try {
        await this.#write(batch);
        return undefined;
      } catch (error) {
        if (this.#closed) return new AppError("unavailable", "The log of the process is closed.", { cause: error });
        this.#log.error({ err: error, process: this.token }, "process output cannot be written; it is tried again");
        await this.#closeFile().catch(() => undefined);
        await new Promise((resolve) => setTimeout(resolve, retryDelayMs).unref());
      }
    }
  }

  /** Never more than fits the segment, so that what is kept has a bound; what does not begins the next one. */
  #takeBatch(): Pending[] {
    const segment = this.segments.at(-1);
    const isFull = segment === undefined || segment.bytes + recordBytes(this.#pending[0]!) > segmentMaxBytes;
    const maxBytes = Math.min(batchMaxBytes, segmentMaxBytes - (isFull ? segmentHeaderBytes : segment.bytes));
    let bytes = 0;
    let count = 0;
    for (; count < this.#pending.length && count < batchRecordsMax; count++) {
      const more = recordBytes(this.#pending[count]!);
      if (bytes + more > maxBytes) break;
      bytes += more;
    }
    return this.#pending.splice(0, count);
  }

  async #write(batch: readonly Pending[]): Promise<void> {
    const bytes = batch.reduce((sum, pending) => sum + recordBytes(pending), 0);
    let segment = this.segments.at(-1);
    if (segment === undefined || segment.bytes + bytes > segmentMaxBytes) segment = await this.#rotate();
    this.#file ??= await openFile(this.segmentPath(segment.sequence), "r+", 0o600);
    const buffers = batch.flatMap(({ stream, offset, data }) => [
      encodeRecordHeader(stream, data.length, offset),
      data,
    ]);
    this.#mark(segment);
    await writeAll(this.#file, buffers, segment.bytes);
    segment.bytes += bytes;
    for (const { stream, offset, data } of batch) this.written[stream] = offset + data.length;
    this.#onWritten(bytes);
  }

  #mark({ sequence, bytes }: Segment): void {
    const atMs = performance.now();
    const newest = this.#marks.at(-1);
    if (newest === undefined || atMs - newest.atMs >= markMs) {
      this.#marks = [...this.#marks.slice(-2), { sequence, position: bytes, atMs }];
    }
  }

  async #rotate(): Promise<Segment> {
    await this.#closeFile();
    const segment = { sequence: (this.segments.at(-1)?.sequence ?? 0) + 1, start: { ...this.written }, bytes: 0 };
    this.#file = await openFile(this.segmentPath(segment.sequence), "w+", 0o600);
    await writeAll(this.#file, [encodeSegmentHeader(segment.start)], 0);
    segment.bytes = segmentHeaderBytes;
    this.#onWritten(segmentHeaderBytes);
    this.segments.push(segment);
    if (this.segments.length > segmentsMax) this.drop("oldest");
    return segment;
  }

  async #closeFile(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    if (file !== undefined) await closeFile(file);
  }
}

export function segmentPath(directory: string, token: string, sequence: number): string {
  return join(directory, `${token}.${sequence}.log`);
}

/** A short write (a full disk, a signal) leaves the rest to be written or the whole batch to be written again at the same place. */
async function writeAll(file: number, buffers: Buffer[], position: number): Promise<void> {
  let rest = buffers;
  let at = position;
  while (rest.length > 0) {
    let written = await writeBuffers(file, rest, at);
    if (written === 0) throw new AppError("internal", "A write to the process log made no progress.");
    at += written;
    let index = 0;
    while (index < rest.length && written >= rest[index]!.length) written -= rest[index++]!.length;
    rest = rest.slice(index);
    if (written > 0) rest[0] = rest[0]!.subarray(written);
  }
}
