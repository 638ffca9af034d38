// What one process says, from the frames of its channel to the sink: in order, checked, acknowledged after the sink has taken it.
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "../../core/log.ts";
import type { OutputStream, ProcessEnd, ProcessSink } from "../../sandbox-api/machine.ts";
import { GuestProtocolError } from "./guest-errors.ts";
import type { OutputMessage } from "./messages.ts";
import { giveSlab, largeSlabBytes, slabBytes, takeSlab } from "./slabs.ts";

const retryMinMs = 100;
const retryMaxMs = 5_000;
/** Counted for every piece besides its bytes, so that many tiny ones are not free. */
const pieceOverheadBytes = 256;
/** From this size on a piece gets a slab, which what follows fits into, too. */
const muchBytes = 16 * 1024;

/** Where one delivery goes and what it causes. */
export type Delivery = {
  readonly sink: ProcessSink;
  readonly log: Logger;
  readonly stopped: AbortSignal;
  /** Memory taken (positive) or given back (negative) by pieces that wait for the sink or are with it. */
  account(bytes: number): void;
  acknowledge(stream: OutputStream, offset: number): void;
  acknowledgeExit(): void;
};

/** `memory` is filled up to `length`. */
type Piece = { stream: OutputStream; offset: number; memory: Buffer; length: number };

export class ProcessFeed {
  readonly token: string;
  readonly channel: number;
  readonly pid: number;
  /** Bytes received and acknowledged of each stream. */
  readonly #received: Record<OutputStream, number>;
  readonly #acked: Record<OutputStream, number>;
  /** What waits, from the index `#first` on. */
  #pieces: Piece[] = [];
  #first = 0;
  /** Up to where the sink has each stream in safety and the guest does not know it yet. */
  readonly #taken = new Map<OutputStream, number>();
  #isAcknowledging = false;
  #acknowledging: Promise<void> | undefined;
  #end: ProcessEnd | undefined;
  #running = false;
  #finished = false;

  constructor(identity: { token: string; channel: number; pid: number }, acked: readonly [number, number]) {
    this.token = identity.token;
    this.channel = identity.channel;
    this.pid = identity.pid;
    this.#received = { stdout: acked[0], stderr: acked[1] };
    this.#acked = { ...this.#received };
  }

  /** Memory its waiting pieces are accounted with. */
  receive({ stream, offset, bytes }: OutputMessage, windowBytes: number): number {
    if (this.#end !== undefined) throw new GuestProtocolError("output after the end of a process");
    if (offset !== this.#received[stream]) throw new GuestProtocolError("output is not at the offset it should have");
    if (offset + bytes.length - this.#acked[stream] > windowBytes) {
      throw new GuestProtocolError("more output than the window allows");
    }
    this.#received[stream] += bytes.length;
    const continued = this.#continueLast(stream, bytes);
    const rest = bytes.subarray(continued);
    if (rest.length === 0) return 0;
    // Memory of its own, so that a few bytes that wait do not keep a slab of Node's pool.
    const memory = rest.length < muchBytes ? Buffer.allocUnsafeSlow(rest.length) : takeSlab(this.#slabSize());
    rest.copy(memory);
    this.#pieces.push({ stream, offset: offset + continued, memory, length: rest.length });
    return memory.length + pieceOverheadBytes;
  }

  /** Much for a process whose output comes faster than it is taken. */
  #slabSize(): typeof slabBytes | typeof largeSlabBytes {
    const last = this.#first < this.#pieces.length ? this.#pieces.at(-1) : undefined;
    return last === undefined || last.length < slabBytes ? slabBytes : largeSlabBytes;
  }

  /** How many bytes have gone into the memory of the last piece. */
  #continueLast(stream: OutputStream, bytes: Buffer): number {
    const last = this.#first < this.#pieces.length ? this.#pieces.at(-1) : undefined;
    if (last === undefined || last.stream !== stream) return 0;
    const copied = bytes.copy(last.memory, last.length);
    last.length += copied;
    return copied;
  }

  end(end: ProcessEnd): void {
    if (this.#end !== undefined) throw new GuestProtocolError("a process ended twice");
    this.#end = end;
  }

  /** Delivers everything received, unless a delivery is under way that will. */
  async deliver(to: Delivery): Promise<void> {
    if (this.#running || this.#finished) return;
    this.#running = true;
    try {
      while (this.#first < this.#pieces.length && !to.stopped.aborted) await this.#deliverNext(to);
      if (this.#end === undefined || to.stopped.aborted) return;
      const end = this.#end;
      await this.#acknowledging;
      await this.#insist(to, () => to.sink.exit(this.token, end));
      if (to.stopped.aborted) return;
      this.#finished = true;
      to.acknowledgeExit();
    } finally {
      this.#running = false;
    }
  }

  async #deliverNext(to: Delivery): Promise<void> {
    const { stream, offset, bytes, memory, accountedBytes } = this.#takePieces();
    await this.#insist(to, () => to.sink.output(this.token, stream, offset, bytes));
    for (const slab of memory) giveSlab(slab);
    to.account(-accountedBytes);
    if (to.stopped.aborted) return;
    this.#taken.set(stream, offset + bytes.length);
    if (!this.#isAcknowledging) this.#acknowledging = this.#acknowledgeTaken(to);
  }

  /**
   * Apart from the delivery: what the sink has taken waits in no memory, however long it wants no more. Is over in the turn that finds
   * nothing taken, so that what is taken in the next one begins another: a process would wait for ever for what nobody acknowledges.
   */
  async #acknowledgeTaken(to: Delivery): Promise<void> {
    this.#isAcknowledging = true;
    while (this.#taken.size > 0) {
      if (to.sink.pace !== undefined) await this.#insist(to, async () => to.sink.pace?.(this.token));
      if (to.stopped.aborted) return;
      for (const [stream, offset] of this.#taken) {
        this.#acked[stream] = offset;
        to.acknowledge(stream, offset);
      }
      this.#taken.clear();
    }
    this.#isAcknowledging = false;
  }

  /** The first piece joined with those of the same stream that follow it and fit into a slab with it. */
  #takePieces(): { stream: OutputStream; offset: number; bytes: Buffer; memory: Buffer[]; accountedBytes: number } {
    const { stream, offset } = this.#pieces[this.#first]!;
    const taken: Buffer[] = [];
    const memory: Buffer[] = [];
    let length = 0;
    let accountedBytes = 0;
    for (let next = this.#first; next < this.#pieces.length; next++) {
      const piece = this.#pieces[next]!;
      if (piece.stream !== stream || (taken.length > 0 && length + piece.length > slabBytes)) break;
      taken.push(piece.memory.subarray(0, piece.length));
      memory.push(piece.memory);
      length += piece.length;
      accountedBytes += piece.memory.length + pieceOverheadBytes;
    }
    this.#first += taken.length;
    // Dropped in batches: taking each from the array's beginning would move all the others.
    if (this.#first === this.#pieces.length || this.#first >= 1024) {
      this.#pieces.splice(0, this.#first);
      this.#first = 0;
    }
    const bytes = taken.length === 1 ? taken[0]! : Buffer.concat(taken, length);
    return { stream, offset, bytes, memory, accountedBytes };
  }

  /** A sink that fails is asked again: the process waits meanwhile, and nothing is lost. */
  async #insist(to: Delivery, deliver: () => Promise<void>): Promise<void> {
    for (let delayMs = retryMinMs; !to.stopped.aborted; delayMs = Math.min(delayMs * 2, retryMaxMs)) {
      try {
        return await deliver();
      } catch (error) {
        if (to.stopped.aborted) return;
        to.log.warn({ err: error, retryInMs: delayMs }, "output of a process could not be taken; it is tried again");
        await sleep(delayMs, undefined, { signal: to.stopped }).catch(() => undefined);
      }
    }
  }
}
