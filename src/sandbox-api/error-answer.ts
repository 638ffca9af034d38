// Answers of failures: `{error}`, on every path a request can fail on.
import type { IncomingMessage, ServerResponse } from "node:http";
import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import type { AppError } from "../core/errors.ts";
import { closeLate } from "../core/late-close.ts";
import { timingOf } from "../core/timing.ts";

/** For requests that Fastify does not see. */
export function answerError(request: IncomingMessage, response: ServerResponse, error: AppError): void {
  if (response.headersSent) return void response.destroy();
  const body = JSON.stringify({ error: error.message });
  response.writeHead(error.status, {
    "content-type": "application/json; charset=utf-8",
    "content-length": Buffer.byteLength(body),
    "cache-control": "no-store",
    "access-control-allow-origin": "*",
    "server-timing": timingOf(request).header(),
  });
  response.end(request.method === "HEAD" ? undefined : body);
}

/** For connection upgrades, where only the socket is left. */
export function refuseUpgrade(request: IncomingMessage, socket: Duplex, error: AppError): void {
  if (socket.destroyed || !socket.writable) return void socket.destroy();
  const body = JSON.stringify({ error: error.message });
  socket.write(
    `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}\r\n` +
      "content-type: application/json; charset=utf-8\r\n" +
      `content-length: ${Buffer.byteLength(body)}\r\n` +
      "cache-control: no-store\r\n" +
      `server-timing: ${timingOf(request).header()}\r\n` +
      `connection: close\r\n\r\n${body}`,
  );
  closeLate(socket);
}
