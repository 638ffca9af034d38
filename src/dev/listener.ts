// The one HTTP listener of a single-process platform: `/v0` is the control plane's, everything else is traffic to sandboxes.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { AppError } from "../core/errors.ts";
import { timingOf } from "../core/timing.ts";

export type Listener = AsyncDisposable & { server: Server; origin: string };

export type Handlers = {
  controlPlane(request: IncomingMessage, response: ServerResponse): void;
  edge(request: IncomingMessage, response: ServerResponse): void;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
};

const headersTimeoutMs = 30_000;
const keepAliveTimeoutMs = 120_000;

/** Opens the port before the parts behind it exist, so that the address is known; requests are held until `serve` connects them. */
export async function openListener(listen: string): Promise<Listener & { serve(handlers: Handlers): void }> {
  const { host, port } = parseListen(listen);
  const server = createServer({
    // Uploads take as long as they take; a slow header is an attack, a slow body is a slow line.
    requestTimeout: 0,
    headersTimeout: headersTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    noDelay: true,
    highWaterMark: 256 * 1024,
  });
  const sockets = new Set<Duplex>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    if (error.code === "ECONNRESET" || !socket.writable) return socket.destroy();
    const status = error.code === "HPE_HEADER_OVERFLOW" ? "431 Request Header Fields Too Large" : "400 Bad Request";
    socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EADDRINUSE") return reject(error);
      reject(
        new AppError("conflict", `Port ${port} on ${host} is taken; choose another with --listen or CATNAP_LISTEN.`),
      );
    });
    server.listen(port, host, resolve);
  });
  const address = server.address() as AddressInfo;
  let handlers: Handlers | undefined;
  const started = Promise.withResolvers<Handlers>();
  server.on("request", (request: IncomingMessage, response: ServerResponse) => {
    timingOf(request);
    if (handlers !== undefined) dispatch(handlers, request, response);
    else void started.promise.then((late) => dispatch(late, request, response));
  });
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    void started.promise.then(({ upgrade }) => upgrade(request, socket, head));
  });
  return {
    server,
    origin: `http://${address.family === "IPv6" ? `[${address.address}]` : address.address}:${address.port}`,
    serve(late) {
      handlers = late;
      started.resolve(late);
    },
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

function dispatch({ controlPlane, edge }: Handlers, request: IncomingMessage, response: ServerResponse): void {
  if (isControlPlane(request.url ?? "/")) controlPlane(request, response);
  else edge(request, response);
}

function isControlPlane(url: string): boolean {
  return url.startsWith("/v0") && (url.length === 3 || url[3] === "/" || url[3] === "?");
}

function parseListen(listen: string): { host: string; port: number } {
  const match = /^(?:(?<host>[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\]):)?(?<port>\d{1,5})$/.exec(listen);
  const port = Number(match?.groups?.port);
  if (match === null || port > 65_535) {
    throw new AppError(
      "invalid_request",
      `The listen address must be HOST:PORT, for example 127.0.0.1:4000, not ${listen}.`,
    );
  }
  return { host: (match.groups?.host ?? "127.0.0.1").replace(/[[\]]/g, ""), port };
}
