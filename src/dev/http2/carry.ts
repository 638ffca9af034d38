// Carries one stream of HTTP/2 to the HTTP/1 server, over a connection in memory, and the answer back.
import { type ClientRequest, type IncomingMessage, request as sendRequest } from "node:http";
import { constants, type IncomingHttpHeaders, type OutgoingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import type { Duplex } from "node:stream";
import { Timing } from "../../core/timing.ts";
import { type RequestHead, readHead, requestHeaders, responseHeaders, trailersOf } from "./headers.ts";
import { discardLateBody } from "./late-body.ts";
import { StreamSocket } from "./stream-socket.ts";
import { carryWebSocket, createWebSocketKey, webSocketHeaders } from "./websocket.ts";

const { NGHTTP2_CANCEL, NGHTTP2_INTERNAL_ERROR } = constants;

/** What a server inside may answer with, and not less. */
const headMaxBytes = 128 * 1024;

export type CarryOptions = {
  /** Takes one end of a connection in memory as if it had been accepted. */
  serve: (connection: Duplex) => void;
  /** How long the end of an answer may wait for a caller who does not take it. */
  untakenMs: number;
};

export function carry(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  raw: string[],
  { serve, untakenMs }: CarryOptions,
): void {
  const head = readHead(headers);
  if (head === undefined) return refuse(stream, 400, "This is not a valid HTTP request.");
  const key = head.protocol === "websocket" ? createWebSocketKey() : undefined;
  if (head.protocol !== undefined && key === undefined) {
    return refuse(stream, 501, "CONNECT is possible with the protocol websocket only.");
  }
  const [near, far] = StreamSocket.pair({
    remoteAddress: stream.session?.socket?.remoteAddress,
    encrypted: stream.session?.encrypted === true,
    alpnProtocol: "h2",
  });
  serve(far);
  let request: ClientRequest;
  try {
    request = sendRequest({
      createConnection: () => near,
      method: key === undefined ? head.method : "GET",
      path: head.path,
      headers: key === undefined ? framedHeaders(stream, head, headers, raw) : webSocketHeaders(head, raw, key),
      setHost: false,
      setDefaultHeaders: false,
      maxHeaderSize: headMaxBytes,
    });
  } catch {
    // A method, a path or a value that HTTP/1 cannot say.
    near.destroy();
    return refuse(stream, 400, "This is not a valid HTTP request.");
  }
  stream.once("close", () => {
    request.destroy();
    near.destroy();
    far.destroy();
  });
  carryAnswer(stream, request, untakenMs);
  if (key === undefined) carryBody(stream, request);
  else carryWebSocket(stream, request, { key, far, refuse });
}

function framedHeaders(
  stream: ServerHttp2Stream,
  head: RequestHead,
  headers: IncomingHttpHeaders,
  raw: readonly string[],
): string[] {
  const list = requestHeaders(head, raw);
  if (!stream.endAfterHeaders && headers["content-length"] === undefined) list.push("transfer-encoding", "chunked");
  list.push("connection", "close");
  return list;
}

function carryBody(stream: ServerHttp2Stream, request: ClientRequest): void {
  request.on("upgrade", () => stream.close(NGHTTP2_INTERNAL_ERROR));
  stream.once("trailers", (trailers: IncomingHttpHeaders) => {
    if (request.writableEnded) return;
    try {
      request.addTrailers(trailersOf(trailers));
    } catch {
      // A value that HTTP/1 cannot say.
      stream.close(NGHTTP2_INTERNAL_ERROR);
    }
  });
  // A caller may await the answer before it begins with its body.
  if (!stream.endAfterHeaders) request.flushHeaders();
  stream.pipe(request);
}

function carryAnswer(stream: ServerHttp2Stream, request: ClientRequest, untakenMs: number): void {
  request.on("continue", () => interim(stream, { ":status": 100 }));
  request.on("information", ({ statusCode, headers: early }) => {
    if (statusCode === 103) interim(stream, { ...early, ":status": 103 });
  });
  request.on("response", (response) => {
    if (stream.destroyed || stream.closed) return void response.destroy();
    // Some callers take the difference between an empty body and none for one of meaning: gRPC's do.
    const endStream = response.headers["content-length"] === "0";
    try {
      stream.respond(
        { ...responseHeaders(response.rawHeaders), ":status": response.statusCode! },
        endStream ? { endStream } : { waitForTrailers: true },
      );
    } catch {
      // Statuses and headers that HTTP/1 knows and HTTP/2 does not: the server inside a sandbox chooses them.
      response.destroy();
      return refuse(stream, 502, "The answer cannot be said in HTTP/2.");
    }
    stream.once("wantTrailers", () => sendTrailers(stream, response.rawTrailers));
    response.once("close", () => endAnswer(stream, response, untakenMs));
    response.pipe(stream);
  });
  request.on("error", () => {
    if (!stream.headersSent) refuse(stream, 502, "The connection to the platform broke.");
    else if (!stream.writableEnded) stream.close(NGHTTP2_INTERNAL_ERROR);
  });
}

/** An answer that stops short must not look like a whole one, and a whole one must not wait for ever. */
function endAnswer(stream: ServerHttp2Stream, response: IncomingMessage, untakenMs: number): void {
  if (!response.complete) return stream.close(NGHTTP2_INTERNAL_ERROR);
  if (stream.closed) return;
  const untaken = setTimeout(() => stream.close(NGHTTP2_CANCEL), untakenMs);
  stream.once("close", () => clearTimeout(untaken));
  discardLateBody(stream);
}

function sendTrailers(stream: ServerHttp2Stream, raw: readonly string[]): void {
  if (stream.destroyed) return;
  try {
    stream.sendTrailers(responseHeaders(raw));
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

const codes: Readonly<Record<number, string>> = { 400: "BAD_REQUEST", 501: "NOT_IMPLEMENTED" };

/** Belongs to neither surface, as what the HTTP/1 server does not understand. */
function refuse(stream: ServerHttp2Stream, status: number, message: string): void {
  if (stream.destroyed || stream.closed || stream.headersSent) return;
  const body = JSON.stringify({ error: codes[status] ?? "UNAVAILABLE", code: status, message });
  stream.respond({
    ":status": status,
    "content-type": "application/json",
    "cache-control": "no-store",
    "server-timing": new Timing().header(),
  });
  stream.end(body);
  stream.resume();
}
