// What a listener owes every request before anybody looks at it: one form of its target, an answer when it has none, bounds on its connection.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { closeLate } from "../core/late-close.ts";
import { Timing, timingOf } from "../core/timing.ts";

/**
 * Brings a target in absolute form (RFC 9112, 3.2.2) into origin form, where its authority takes the place of the Host header. Returns
 * why the request is refused: whoever reads another Host than we do would be led to another sandbox.
 */
export function normalizeTarget(request: IncomingMessage): string | undefined {
  const { rawHeaders } = request;
  const hosts = rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === "host").length;
  if (hosts > 1 || (hosts === 0 && request.httpVersion === "1.1"))
    return "The request must have exactly one Host header.";
  const target = request.url ?? "";
  if (target.startsWith("/") || target === "*") return undefined;
  const match = /^https?:\/\/([^/?#@\s]+)([/?].*)?$/i.exec(target);
  if (match === null) return "The request's target is neither a path nor an http URL.";
  const [, authority, rest = "/"] = match;
  request.url = rest.startsWith("/") ? rest : `/${rest}`;
  request.headers.host = authority;
  const index = rawHeaders.findIndex((name, at) => at % 2 === 0 && name.toLowerCase() === "host");
  if (index >= 0) rawHeaders[index + 1] = authority!;
  return undefined;
}

/** Whoever offers a body is asked for it when somebody begins to read, and not at all when the answer has begun by then. */
export function askWhenRead(request: IncomingMessage, response: ServerResponse): void {
  const read = request._read;
  request._read = (size) => {
    request._read = read;
    if (!response.headersSent) response.writeContinue();
    request._read(size);
  };
}

/** Answers that are owed to each connection. */
const owed = new WeakMap<Duplex, number>();

/** Watches a request until it is answered, and what is still to come of its body after that. */
export function watchAnswer(request: IncomingMessage, response: ServerResponse, lateBodyMs: number): void {
  const { socket } = request;
  // How the server closes a connection that ends with its answer. Streams of HTTP/2 have another way.
  if (typeof socket.destroySoon === "function") {
    const destroySoon = Object.getPrototypeOf(socket).destroySoon as () => void;
    socket.destroySoon = () => {
      if (request.complete) return destroySoon.call(socket);
      request.unpipe();
      request.resume();
      closeLate(socket, lateBodyMs);
    };
  }
  owed.set(socket, (owed.get(socket) ?? 0) + 1);
  response.once("close", () => {
    owed.set(socket, owed.get(socket)! - 1);
    if (request.complete || socket.destroyed) return;
    // A request that its reader has left is closed long before its last byte.
    setTimeout(() => request.complete || socket.destroy(), lateBodyMs).unref();
  });
}

export function isAnswerOwed(socket: Duplex): boolean {
  return (owed.get(socket) ?? 0) > 0;
}

export function refuseRequest(request: IncomingMessage, response: ServerResponse, message: string): void {
  const body = JSON.stringify({ error: "BAD_REQUEST", code: 400, message });
  response.writeHead(400, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    "cache-control": "no-store",
    connection: "close",
    "server-timing": timingOf(request).header(),
  });
  response.end(request.method === "HEAD" ? undefined : body);
}

/** Connections on which nothing more is said. */
const refused = new WeakSet<Duplex>();

/** Refuses what is no request, or never becomes one. */
export function refuseClient(error: NodeJS.ErrnoException, socket: Duplex): void {
  // What comes behind it is no request either.
  if (refused.has(socket)) return;
  // Inside an answer that has begun, or instead of one that is still to come, these bytes would be taken for something else.
  if (error.code === "ECONNRESET" || !socket.writable || isAnswerOwed(socket)) return void socket.destroy();
  const status =
    error.code === "HPE_HEADER_OVERFLOW"
      ? "431 Request Header Fields Too Large"
      : error.code === "ERR_HTTP_REQUEST_TIMEOUT"
        ? "408 Request Timeout"
        : "400 Bad Request";
  refuseConnection(socket, status);
}

/** What is not understood as a request belongs to neither surface; the general body is the one most callers read. */
const refusals: Readonly<Record<number, { error: string; message: string }>> = {
  400: { error: "BAD_REQUEST", message: "This is not a valid HTTP request." },
  408: { error: "request_timeout", message: "The head of the request did not arrive in time." },
  431: { error: "headers_too_large", message: "The request line and the headers are larger than 16 KiB." },
};

export function refuseConnection(socket: Duplex, status: string): void {
  const timing = new Timing().header();
  const code = Number.parseInt(status, 10);
  const { error, message } = refusals[code] ?? refusals[400]!;
  const body = JSON.stringify({ error, code, message });
  const headers = ["content-type: application/json", `content-length: ${body.length}`, "cache-control: no-store"];
  const head = [`HTTP/1.1 ${status}`, `server-timing: ${timing}`, "connection: close", ...headers].join("\r\n");
  refused.add(socket);
  socket.write(`${head}\r\n\r\n${body}`);
  closeLate(socket);
}
