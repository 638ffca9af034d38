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
  onClosed: () => void;
};

export class FileBody extends Readable {
  readonly #socket: Socket;
  readonly #onClosed: () => void;
  #leftBytes: number;

  constructor({ socket, first, lengthBytes, onClosed }: FileBodyOptions) {
    super({ highWaterMark: 256 * 1024 });
    this.#socket = socket;
    this.#onClosed = onClosed;
    this.#leftBytes = lengthBytes;
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("error", (error) => this.destroy(unavailable("the connection failed", error)));
    socket.on("close", () => this.#onEarlyEnd());
    socket.on("end", () => this.#onEarlyEnd());
    if (first.length > 0 || lengthBytes === 0) this.#take(first);
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#socket.destroy();
    this.#onClosed();
    done(error);
  }

  #take(chunk: Buffer): void {
    if (chunk.length > this.#leftBytes) {
      this.destroy(new AppError("upstream_failed", "The sandbox's init sent more than it promised."));
      return;
    }
    this.#leftBytes -= chunk.length;
    const wantsMore = chunk.length === 0 || this.push(chunk);
    if (this.#leftBytes === 0) {
      this.push(null);
      this.#socket.destroy();
    } else if (!wantsMore) {
      this.#socket.pause();
    }
  }

  #onEarlyEnd(): void {
    if (this.#leftBytes > 0) this.destroy(new AppError("conflict", "The file became shorter while it was read."));
  }
}
