// HTTP/2 for callers that speak it: each stream becomes a request to the HTTP/1 server, so that there is one meaning of every request.
import { request as sendRequest } from "node:http";
import {
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { Duplex } from "node:stream";
import { StreamSocket } from "./stream-socket.ts";

/** What a client that knows the server speaks HTTP/2 begins with (RFC 9113, 3.4). */
const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/** Undefined as long as it may become one. */
export function isPreface(bytes: Buffer): boolean | undefined {
  const compared = Math.min(bytes.length, preface.length);
  if (!bytes.subarray(0, compared).equals(preface.subarray(0, compared))) return false;
  return bytes.length >= preface.length ? true : undefined;
}

const { NGHTTP2_INTERNAL_ERROR, NGHTTP2_NO_ERROR } = constants;

export type Http2Options = {
  /** Takes one end of a connection in memory as if it had been accepted. */
  serve: (connection: Duplex) => void;
  /** How long a session without a stream stays. */
  idleMs: number;
};

/** Its sessions begin with `emit("connection", socket)`. */
export function createHttp2Server({ serve, idleMs }: Http2Options): Http2Server {
  const server = createServer({
    // Per session: streams at once, memory, and what a caller may repeat without asking for anything.
    settings: {
      maxConcurrentStreams: 100,
      maxHeaderListSize: 16_384,
      enablePush: false,
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
    carry(stream, headers, raw, serve);
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

function carry(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  raw: string[],
  serve: Http2Options["serve"],
): void {
  const method = headers[":method"];
  const path = headers[":path"];
  if (method === undefined || path === undefined || method === "CONNECT") return refuse(stream, 400);
  const socket = stream.session?.socket;
  const origin = { remoteAddress: socket?.remoteAddress, encrypted: stream.session?.encrypted === true };
  const [near, far] = StreamSocket.pair(origin);
  serve(far);
  let request: ReturnType<typeof sendRequest>;
  try {
    request = sendRequest({
      createConnection: () => near,
      method,
      path,
      headers: requestHeaders(stream, headers, raw),
      setHost: false,
      setDefaultHeaders: false,
      // What a server inside may answer with, and not less.
      maxHeaderSize: 128 * 1024,
    });
  } catch {
    // A method or a path that HTTP/1 cannot say.
    near.destroy();
    return refuse(stream, 400);
  }
  request.on("continue", () => interim(stream, { ":status": 100 }));
  request.on("information", ({ statusCode, headers: early }) => {
    if (statusCode === 103) interim(stream, { ...early, ":status": 103 });
  });
  request.on("response", (response) => {
    if (stream.destroyed || stream.closed) return void response.destroy();
    const answer = responseHeaders(response.statusCode!, response.rawHeaders);
    try {
      stream.respond(answer, { waitForTrailers: true });
    } catch {
      // Statuses and headers that HTTP/1 knows and HTTP/2 does not: the server inside a sandbox chooses them.
      response.destroy();
      return refuse(stream, 502);
    }
    stream.once("wantTrailers", () => sendTrailers(stream, response.rawTrailers));
    // An answer that stops short must not look like a whole one.
    response.once("close", () => {
      if (!response.complete) stream.close(NGHTTP2_INTERNAL_ERROR);
      else if (!stream.readableEnded) lateBody(stream);
    });
    response.pipe(stream);
  });
  request.on("upgrade", () => stream.close(NGHTTP2_INTERNAL_ERROR));
  request.on("error", () => {
    if (!stream.headersSent) refuse(stream, 502);
    else if (!stream.writableEnded) stream.close(NGHTTP2_INTERNAL_ERROR);
  });
  stream.once("trailers", (trailers: IncomingHttpHeaders) => {
    const entries = Object.entries(trailers).filter(([name]) => !name.startsWith(":"));
    if (!request.writableEnded)
      request.addTrailers(entries.map(([name, value]) => [name, String(value)] as [string, string]));
  });
  stream.once("close", () => {
    request.destroy();
    near.destroy();
  });
  stream.pipe(request);
}

const connectionHeaders = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
  "te",
  "http2-settings",
]);

/** As one list, in which only cookies are put together (RFC 9113, 8.2.3). */
function requestHeaders(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, raw: string[]): string[] {
  const authority = headers[":authority"] ?? headers.host;
  const list = authority === undefined ? [] : ["host", authority];
  const cookies: string[] = [];
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = raw[index]!.toLowerCase();
    if (name.startsWith(":") || name === "host" || connectionHeaders.has(name)) continue;
    if (name === "cookie") cookies.push(raw[index + 1]!);
    else list.push(name, raw[index + 1]!);
  }
  if (cookies.length > 0) list.push("cookie", cookies.join("; "));
  if (!stream.endAfterHeaders && headers["content-length"] === undefined) list.push("transfer-encoding", "chunked");
  list.push("connection", "close");
  return list;
}

function responseHeaders(status: number, raw: readonly string[]): OutgoingHttpHeaders {
  const headers: Record<string, string | string[]> = {};
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = raw[index]!.toLowerCase();
    if (connectionHeaders.has(name)) continue;
    const before = headers[name];
    headers[name] = before === undefined ? raw[index + 1]! : [before, raw[index + 1]!].flat();
  }
  for (const [name, value] of Object.entries(headers)) {
    // The transport takes only some of them more than once.
    if (Array.isArray(value) && name !== "set-cookie") headers[name] = value.join(", ");
  }
  return { ...headers, ":status": status };
}

function sendTrailers(stream: ServerHttp2Stream, raw: readonly string[]): void {
  const { ":status": _, ...trailers } = responseHeaders(200, raw);
  if (stream.destroyed) return;
  try {
    stream.sendTrailers(trailers);
  } catch {
    stream.close(NGHTTP2_INTERNAL_ERROR);
  }
}

function interim(stream: ServerHttp2Stream, headers: OutgoingHttpHeaders): void {
  if (stream.destroyed || stream.closed || stream.headersSent) return;
  try {
    stream.additionalHeaders(headers);
  } catch {
    // It was only a hint.
  }
}

/** Nobody wants the rest of a body that was answered already (RFC 9113, 8.1). */
function lateBody(stream: ServerHttp2Stream): void {
  const end = (): void => stream.close(NGHTTP2_NO_ERROR);
  if (stream.writableFinished) end();
  else stream.once("finish", end);
}

function refuse(stream: ServerHttp2Stream, status: number): void {
  if (stream.destroyed || stream.closed) return;
  const message = status === 400 ? "This is not a valid HTTP request." : "The connection to the platform broke.";
  const body = JSON.stringify({ error: status === 400 ? "BAD_REQUEST" : "UNAVAILABLE", code: status, message });
  stream.respond({ ":status": status, "content-type": "application/json", "cache-control": "no-store" });
  stream.end(body);
  stream.resume();
}
