// How many streams of HTTP/2 may be open: each beyond the first of its session stands for a connection that nobody had to open.
import type { Http2Session, ServerHttp2Stream } from "node:http2";
import { networkOf } from "../../control-plane/auth/client-network.ts";

export type StreamBoundsOptions = {
  /** Connections and what stands for them, together. */
  connectionsMax: number;
  countConnections: () => number;
  /** An address that many callers share. */
  isProxy: (address: string) => boolean;
};

/** What one address, unless it is a proxy's, can take of all connections by streams. */
const shareOfSource = 1 / 4;

export class StreamBounds {
  readonly #options: StreamBoundsOptions;
  readonly #sourceMax: number;
  readonly #bySession = new WeakMap<Http2Session, number>();
  readonly #bySource = new Map<string, number>();
  #count = 0;

  constructor(options: StreamBoundsOptions) {
    this.#options = options;
    this.#sourceMax = Math.ceil(options.connectionsMax * shareOfSource);
  }

  /** Streams that stand for a connection of their own. */
  get count(): number {
    return this.#count;
  }

  /** Counts a stream until it is closed; false when there are too many. */
  admit(stream: ServerHttp2Stream): boolean {
    const { session } = stream;
    if (session === undefined || stream.closed) return false;
    const open = this.#bySession.get(session) ?? 0;
    const address = session.socket?.remoteAddress ?? "";
    const source = networkOf(address);
    // The first one has the session's own connection.
    if (open > 0 && !this.#hasRoom(source, address)) return false;
    this.#bySession.set(session, open + 1);
    if (open > 0) this.#add(source, 1);
    stream.once("close", () => {
      const left = this.#bySession.get(session)! - 1;
      this.#bySession.set(session, left);
      if (left > 0) this.#add(source, -1);
    });
    return true;
  }

  #hasRoom(source: string, address: string): boolean {
    const { connectionsMax, countConnections, isProxy } = this.#options;
    if (this.#count + countConnections() >= connectionsMax) return false;
    return (this.#bySource.get(source) ?? 0) < this.#sourceMax || isProxy(address);
  }

  #add(source: string, difference: 1 | -1): void {
    this.#count += difference;
    const count = (this.#bySource.get(source) ?? 0) + difference;
    if (count === 0) this.#bySource.delete(source);
    else this.#bySource.set(source, count);
  }
}
