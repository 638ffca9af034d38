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
  /** Memory taken (positive) or given back (negative) by pieces that wait for the sink. */
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
  #pieces: Piece[] = [];
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
    // Copied, so that a few bytes that wait do not keep the large piece they arrived in.
    this.#pieces.push({ stream, offset, bytes: Buffer.from(bytes) });
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
      while (this.#pieces.length > 0 && !to.stopped.aborted) await this.#deliverPiece(to, this.#takePiece(to));
      if (this.#pieces.length > 0 || this.#end === undefined || to.stopped.aborted) return;
      const end = this.#end;
      await this.#insist(to, () => to.sink.exit(this.token, end));
      if (to.stopped.aborted) return;
      this.#finished = true;
      to.acknowledgeExit();
    } finally {
      this.#running = false;
    }
  }

  async #deliverPiece(to: Delivery, { stream, offset, bytes }: Piece): Promise<void> {
    await this.#insist(to, () => to.sink.output(this.token, stream, offset, bytes));
    if (to.stopped.aborted) return;
    this.#acked[stream] = offset + bytes.length;
    to.acknowledge(stream, this.#acked[stream]);
  }

  /** The first piece with those of the same stream that follow it. */
  #takePiece(to: Delivery): Piece {
    const first = this.#pieces[0]!;
    let length = 0;
    let count = 0;
    for (const { stream, bytes } of this.#pieces) {
      if (stream !== first.stream || (count > 0 && length + bytes.length > deliveryBytesMax)) break;
      length += bytes.length;
      count++;
    }
    const taken = this.#pieces.splice(0, count);
    to.account(-(length + count * pieceOverheadBytes));
    return count === 1 ? first : { ...first, bytes: Buffer.concat(taken.map(({ bytes }) => bytes)) };
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
