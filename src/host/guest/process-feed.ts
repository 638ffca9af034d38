// What one process says, from the frames of its channel to the sink: in order, checked, acknowledged after the sink has taken it.
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "../../core/log.ts";
import type { OutputStream, ProcessEnd, ProcessSink } from "../../sandbox-api/machine.ts";
import { GuestProtocolError } from "./guest-errors.ts";
import type { OutputMessage } from "./messages.ts";
import { windowBytes } from "./protocol.ts";

const retryMinMs = 100;
const retryMaxMs = 5_000;
/** Counted for every piece besides its bytes, so that many tiny ones are not free. */
const pieceOverheadBytes = 256;
/** Pieces are joined up to this size for one delivery. */
const deliveryBytesMax = 64 * 1024;

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

type Piece = { stream: OutputStream; offset: number; bytes: Buffer };

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
  receive({ stream, offset, bytes }: OutputMessage): number {
    if (this.#end !== undefined) throw new GuestProtocolError("output after the end of a process");
    if (offset !== this.#received[stream]) throw new GuestProtocolError("output is not at the offset it should have");
    if (offset + bytes.length - this.#acked[stream] > windowBytes) {
      throw new GuestProtocolError("more output than the window allows");
    }
    this.#received[stream] += bytes.length;
    // Copied, so that a few bytes that wait do not keep the large piece they arrived in, or a slab of Node's pool.
    const copy = Buffer.allocUnsafeSlow(bytes.length);
    bytes.copy(copy);
    this.#pieces.push({ stream, offset, bytes: copy });
    return bytes.length + pieceOverheadBytes;
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
    const { piece, accountedBytes } = this.#takePieces();
    const { stream, offset, bytes } = piece;
    await this.#insist(to, () => to.sink.output(this.token, stream, offset, bytes));
    to.account(-accountedBytes);
    if (to.stopped.aborted) return;
    this.#taken.set(stream, offset + bytes.length);
    this.#acknowledging ??= this.#acknowledgeTaken(to).finally(() => {
      this.#acknowledging = undefined;
    });
  }

  /** Apart from the delivery: what the sink has taken waits in no memory, however long it wants no more. */
  async #acknowledgeTaken(to: Delivery): Promise<void> {
    while (this.#taken.size > 0) {
      if (to.sink.pace !== undefined) await this.#insist(to, async () => to.sink.pace?.(this.token));
      if (to.stopped.aborted) return;
      for (const [stream, offset] of this.#taken) {
        this.#acked[stream] = offset;
        to.acknowledge(stream, offset);
      }
      this.#taken.clear();
    }
  }

  /** The first piece joined with those of the same stream that follow it. */
  #takePieces(): { piece: Piece; accountedBytes: number } {
    const first = this.#pieces[this.#first]!;
    const taken: Buffer[] = [];
    let length = 0;
    for (let next = this.#first; next < this.#pieces.length; next++) {
      const { stream, bytes } = this.#pieces[next]!;
      if (stream !== first.stream || (taken.length > 0 && length + bytes.length > deliveryBytesMax)) break;
      taken.push(bytes);
      length += bytes.length;
    }
    this.#first += taken.length;
    // Dropped in batches: taking each from the array's beginning would move all the others.
    if (this.#first === this.#pieces.length || this.#first >= 1024) {
      this.#pieces.splice(0, this.#first);
      this.#first = 0;
    }
    const bytes = taken.length === 1 ? first.bytes : Buffer.concat(taken, length);
    return { piece: { ...first, bytes }, accountedBytes: length + taken.length * pieceOverheadBytes };
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
