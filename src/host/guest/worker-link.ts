// One connection to a worker of the guest: a request, its answers as frames, and what of the stream comes after them.
import type { Socket } from "node:net";
import { AppError } from "../../core/errors.ts";
import { type Deferred, deferWithDeadline } from "./deadline.ts";
import { type Frame, FrameReader } from "./frames.ts";
import { type GuestProtocolError, unavailable } from "./guest-errors.ts";
import { answerPayloadMax } from "./protocol.ts";

export type Wait = { timeoutMs?: number; signal?: AbortSignal; what: string };

export class WorkerLink implements Disposable {
  readonly socket: Socket;
  readonly #reader = new FrameReader(answerPayloadMax);
  #waiting: Deferred<Frame> | undefined;
  #failure: unknown;
  #hasBegun = false;
  readonly #onReadable = (): void => this.#read();
  readonly #onEnd = (): void => this.#fail(unavailable("it closed the connection before it answered"));
  readonly #onError = (error: Error): void => this.#fail(unavailable("the connection failed", error));

  /** The request is on its way. */
  constructor(socket: Socket) {
    this.socket = socket;
    this.socket.on("readable", this.#onReadable);
    this.socket.on("end", this.#onEnd);
    this.socket.on("close", this.#onEnd);
    this.socket.on("error", this.#onError);
  }

  /** The next frame; the connection is closed when it does not come. */
  async next(wait: Wait): Promise<Frame> {
    const waiting = deferWithDeadline<Frame>(wait);
    this.#waiting = waiting;
    this.#settle();
    try {
      return await waiting.promise;
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    } finally {
      this.#waiting = undefined;
    }
  }

  /** Gives up the socket with the bytes after the last frame; they are no longer in it. */
  release(): { socket: Socket; rest: Buffer } {
    this.socket.off("readable", this.#onReadable);
    this.socket.off("end", this.#onEnd);
    this.socket.off("close", this.#onEnd);
    this.socket.off("error", this.#onError);
    return { socket: this.socket, rest: this.#reader.takeRest() };
  }

  /** The worker went away before the first byte of its answer. */
  get isUnheard(): boolean {
    return this.#failure !== undefined && !this.#hasBegun;
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }

  #read(): void {
    if (this.#waiting === undefined) return;
    const piece = this.socket.read() as Buffer | null;
    if (piece === null) return;
    this.#hasBegun = true;
    this.#reader.push(piece);
    this.#settle();
  }

  #settle(): void {
    const waiting = this.#waiting;
    if (waiting === undefined) return;
    try {
      const frame = this.#reader.next();
      if (frame !== undefined) this.#deliver(waiting, frame);
      else if (this.#failure !== undefined) waiting.reject(this.#failure);
      else this.#continue();
    } catch (error) {
      waiting.reject(error);
    }
  }

  /** Whoever waits goes on later: the end of the connection may be heard before, and must not take the next frame. */
  #deliver(waiting: Deferred<Frame>, frame: Frame): void {
    this.#waiting = undefined;
    waiting.resolve(frame);
  }

  #continue(): void {
    if (this.socket.readableLength > 0) setImmediate(this.#onReadable);
  }

  #fail(failure: unknown): void {
    this.#failure ??= failure;
    this.#settle();
  }
}

/** What a caller is told when a worker's bytes make no sense. */
export function unintelligible(error: GuestProtocolError): AppError {
  return new AppError("upstream_failed", "The sandbox's init gave an answer that makes no sense.", { cause: error });
}
