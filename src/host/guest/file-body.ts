// The content of a file on its way out of a sandbox: the socket's bytes, counted, so that an early end is a failure.
import type { Socket } from "node:net";
import { Readable } from "node:stream";
import { AppError } from "../../core/errors.ts";
import { unavailable } from "./guest-errors.ts";

export type FileBodyOptions = {
  socket: Socket;
  /** Bytes of the content that arrived with the answer. */
  first: Buffer;
  lengthBytes: number;
  /** How long more of it is waited for while somebody reads. */
  stallTimeoutMs: number;
  /** Everything has come, and the socket has no listeners of ours any more. */
  onWhole: () => void;
  onClosed: () => void;
};

export class FileBody extends Readable {
  #socket: Socket | undefined;
  readonly #onWhole: () => void;
  readonly #onClosed: () => void;
  readonly #stallTimeoutMs: number;
  #stall: NodeJS.Timeout | undefined;
  #leftBytes: number;
  readonly #onData = (chunk: Buffer): void => this.#take(chunk);
  readonly #onError = (error: Error): void => void this.destroy(unavailable("the connection failed", error));
  readonly #onEarlyEnd = (): void => {
    this.destroy(new AppError("conflict", "The file became shorter while it was read."));
  };

  constructor({ socket, first, lengthBytes, stallTimeoutMs, onWhole, onClosed }: FileBodyOptions) {
    super({ highWaterMark: 256 * 1024 });
    this.#socket = socket;
    this.#onWhole = onWhole;
    this.#onClosed = onClosed;
    this.#leftBytes = lengthBytes;
    this.#stallTimeoutMs = stallTimeoutMs;
    // It may fail before anybody reads it; whoever does is told then.
    this.on("error", () => undefined);
    // Of a small file everything may be here already.
    if (first.length < lengthBytes) {
      socket
        .on("data", this.#onData)
        .on("error", this.#onError)
        .on("close", this.#onEarlyEnd)
        .on("end", this.#onEarlyEnd);
      this.#awaitMore();
    }
    if (first.length > 0 || lengthBytes === 0) this.#take(first);
  }

  override _read(): void {
    if (this.#socket === undefined) return;
    this.#awaitMore();
    this.#socket.resume();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#awaitNothing();
    this.#socket?.destroy();
    this.#onClosed();
    done(error);
  }

  #awaitMore(): void {
    this.#stall ??= setTimeout(() => {
      this.destroy(new AppError("timeout", "The sandbox has stopped sending the file."));
    }, this.#stallTimeoutMs);
  }

  #awaitNothing(): void {
    clearTimeout(this.#stall);
    this.#stall = undefined;
  }

  #take(chunk: Buffer): void {
    if (chunk.length > this.#leftBytes) {
      this.destroy(new AppError("upstream_failed", "The sandbox's init sent more than it promised."));
      return;
    }
    this.#leftBytes -= chunk.length;
    const wantsMore = chunk.length === 0 || this.push(chunk);
    if (this.#leftBytes === 0) this.#finish();
    else if (wantsMore) this.#stall?.refresh();
    else {
      this.#awaitNothing();
      this.#socket?.pause();
    }
  }

  #finish(): void {
    const socket = this.#socket!;
    this.#awaitNothing();
    this.#socket = undefined;
    socket
      .off("data", this.#onData)
      .off("error", this.#onError)
      .off("close", this.#onEarlyEnd)
      .off("end", this.#onEarlyEnd);
    this.push(null);
    this.#onWhole();
  }
}
