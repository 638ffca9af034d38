// HTTP/2 for callers that speak it: each stream becomes a request to the HTTP/1 server, so that there is one meaning of every request.
import {
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import { type CarryOptions, carry } from "./carry.ts";
import type { StreamBounds } from "./stream-bounds.ts";

/** What a client that knows the server speaks HTTP/2 begins with (RFC 9113, 3.4). */
const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/** Undefined as long as it may become one. */
export function isPreface(bytes: Buffer): boolean | undefined {
  const compared = Math.min(bytes.length, preface.length);
  if (!bytes.subarray(0, compared).equals(preface.subarray(0, compared))) return false;
  return bytes.length >= preface.length ? true : undefined;
}

export type Http2Options = CarryOptions & {
  /** How long a session without a stream stays. */
  idleMs: number;
  /** Of all sessions together. */
  bounds: StreamBounds;
};

/** Its sessions begin with `emit("connection", socket)`. */
export function createHttp2Server({ serve, untakenMs, idleMs, bounds }: Http2Options): Http2Server {
  const server = createServer({
    // Per session: streams at once, memory, and what a caller may repeat without asking for anything.
    settings: {
      maxConcurrentStreams: 100,
      maxHeaderListSize: 16_384,
      enablePush: false,
      enableConnectProtocol: true,
      initialWindowSize: 256 * 1024,
    },
    maxHeaderListPairs: 128,
    maxSessionMemory: 16,
    maxSettings: 32,
    maxSessionInvalidFrames: 32,
    maxSessionRejectedStreams: 64,
    streamResetBurst: 200,
    streamResetRate: 33,
  });
  server.on("session", (session) => {
    limitIdle(session, idleMs);
    session.on("error", () => session.destroy());
  });
  server.on("sessionError", () => undefined);
  server.on("stream", (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, _flags: number, raw: string[]) => {
    stream.on("error", () => undefined);
    // Nothing was done for it, so its caller may repeat it (RFC 9113, 8.7).
    if (!bounds.admit(stream)) return stream.close(constants.NGHTTP2_REFUSED_STREAM);
    carry(stream, headers, raw, { serve, untakenMs });
  });
  return server;
}

/** Frames that carry no request keep nothing open. */
function limitIdle(session: ServerHttp2Session, idleMs: number): void {
  let streams = 0;
  let timer = setTimeout(() => session.close(), idleMs);
  session.on("stream", (stream: ServerHttp2Stream) => {
    streams += 1;
    clearTimeout(timer);
    stream.once("close", () => {
      streams -= 1;
      if (streams === 0 && !session.closed) timer = setTimeout(() => session.close(), idleMs);
    });
  });
  session.once("close", () => clearTimeout(timer));
}
