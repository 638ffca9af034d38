// Two ends of a connection in memory, with what an HTTP server asks of a socket: how a stream of HTTP/2 reaches a server of HTTP/1.
import { Duplex } from "node:stream";

/** The caller at the far end, as a socket would tell. */
export type Origin = { remoteAddress: string | undefined; encrypted: boolean; alpnProtocol: string };

/** What a slow caller takes of a large piece counts as taken long before all of it is. */
const pieceMaxBytes = 64 * 1024;

export class StreamSocket extends Duplex {
  readonly remoteAddress: string | undefined;
  readonly encrypted: boolean;
  /** What the caller speaks, by the name that TLS has for it. */
  readonly alpnProtocol: string;
  bytesRead = 0;
  bytesWritten = 0;
  #peer: StreamSocket | undefined;
  /** Continues the peer's write that has found this end full. */
  #taken: (() => void) | undefined;

  private constructor({ remoteAddress, encrypted, alpnProtocol }: Origin) {
    super({ allowHalfOpen: true });
    this.remoteAddress = remoteAddress;
    this.encrypted = encrypted;
    this.alpnProtocol = alpnProtocol;
    // Who is cut off learns it by the closing.
    this.on("error", () => undefined);
  }

  static pair(origin: Origin): [StreamSocket, StreamSocket] {
    const ends: [StreamSocket, StreamSocket] = [new StreamSocket(origin), new StreamSocket(origin)];
    ends[0].#peer = ends[1];
    ends[1].#peer = ends[0];
    return ends;
  }

  override _read(): void {
    const taken = this.#taken;
    this.#taken = undefined;
    taken?.();
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    const peer = this.#peer!;
    if (peer.destroyed) return done(new Error("the other end is closed"));
    const piece = chunk.subarray(0, pieceMaxBytes);
    this.bytesWritten += piece.length;
    peer.bytesRead += piece.length;
    const isTaken = peer.push(piece);
    const next = piece.length === chunk.length ? done : () => this._write(chunk.subarray(piece.length), encoding, done);
    if (isTaken) next();
    else peer.#taken = next;
  }

  override _final(done: () => void): void {
    if (!this.#peer!.destroyed) this.#peer!.push(null);
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    const taken = this.#taken;
    this.#taken = undefined;
    taken?.();
    const peer = this.#peer!;
    // What was written to its end is read to its end.
    if (!this.writableFinished || peer.readableEnded) setImmediate(() => peer.destroy());
    else peer.once("end", () => peer.destroy());
    done(error);
  }
}
