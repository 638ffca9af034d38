// WebSocket over a stream of HTTP/2 (RFC 8441): the platform sees an upgrade of HTTP/1, whose socket the stream becomes.
import { createHash, randomBytes } from "node:crypto";
import type { ClientRequest, IncomingMessage } from "node:http";
import { constants, type ServerHttp2Stream } from "node:http2";
import type { Duplex } from "node:stream";
import { type RequestHead, requestHeaders, responseHeaders } from "./headers.ts";
import { discardLateBody } from "./late-body.ts";

const { NGHTTP2_CANCEL } = constants;

/** RFC 6455, 1.3. */
const acceptSuffix = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

export function createWebSocketKey(): string {
  return randomBytes(16).toString("base64");
}

/** With a key that is not the caller's: the stream itself shows that both know what they agree on. A body is no part of it. */
export function webSocketHeaders(head: RequestHead, raw: readonly string[], key: string): string[] {
  const isDropped = (name: string): boolean =>
    name === "sec-websocket-key" || name === "content-length" || name === "expect";
  return [
    ...requestHeaders(head, raw, isDropped),
    ...["sec-websocket-key", key, "connection", "Upgrade", "upgrade", "websocket"],
  ];
}

export type WebSocketOptions = {
  /** The one in the request. */
  key: string;
  /** The platform's end. */
  far: Duplex;
  refuse(stream: ServerHttp2Stream, status: number, message: string): void;
};

export function carryWebSocket(
  stream: ServerHttp2Stream,
  request: ClientRequest,
  { key, far, refuse }: WebSocketOptions,
): void {
  request.on("upgrade", (response, socket, head) => {
    if (stream.destroyed || stream.closed) return void socket.destroy();
    if (!isAgreed(key, response)) {
      socket.destroy();
      return refuse(stream, 502, "The server did not agree on WebSocket as it must.");
    }
    const { "sec-websocket-accept": _, ...headers } = responseHeaders(response.rawHeaders);
    try {
      // One that waits for trailers is not ended by being closed.
      stream.respond({ ...headers, ":status": 200 }, { waitForTrailers: true });
      stream.once("wantTrailers", () => stream.sendTrailers({}));
    } catch {
      socket.destroy();
      return refuse(stream, 502, "The answer cannot be said in HTTP/2.");
    }
    join(stream, socket, head);
  });
  // Nobody reads from a socket whose upgrade was refused, so its end would not be noticed.
  request.once("response", (refusal) => refusal.once("close", () => far.destroy()));
  request.end();
}

function isAgreed(key: string, response: IncomingMessage): boolean {
  const expected = createHash("sha1").update(`${key}${acceptSuffix}`);
  return response.headers["sec-websocket-accept"] === expected.digest("base64");
}

function join(stream: ServerHttp2Stream, socket: Duplex, head: Buffer): void {
  socket.on("error", () => undefined);
  if (head.length > 0) socket.unshift(head);
  socket.pipe(stream);
  stream.pipe(socket);
  stream.once("close", () => socket.destroy());
  // A tunnel that broke off must not look like one that ended.
  socket.once("close", () => (socket.readableEnded ? discardLateBody(stream) : stream.close(NGHTTP2_CANCEL)));
}
