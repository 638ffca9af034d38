// The one HTTP listener of a single-process platform: `/v0`, `/docs` and its OAuth metadata are the control plane's, the rest is traffic to sandboxes.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, BlockList, isIPv4, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { authorizationServerMetadataPath } from "../contract/oauth.ts";
import { AppError } from "../core/errors.ts";
import { lateBytesMs } from "../core/late-close.ts";
import { timingOf } from "../core/timing.ts";
import { choosesHttp, choosesTls, lookAtFirst } from "./first-bytes.ts";
import { createHttp2Server } from "./http2/server.ts";
import { StreamBounds } from "./http2/stream-bounds.ts";
import {
  askWhenRead,
  isAnswerOwed,
  normalizeTarget,
  refuseClient,
  refuseConnection,
  refuseRequest,
  watchAnswer,
} from "./incoming.ts";
import type { Tls } from "./tls.ts";

export type Listener = AsyncDisposable & { server: Server; origin: string };

export type Handlers = {
  controlPlane(request: IncomingMessage, response: ServerResponse): void;
  edge: {
    /** Whether the request names a sandbox in its Host: then every path is the sandbox's. */
    owns(request: IncomingMessage): boolean;
    handle(request: IncomingMessage, response: ServerResponse): void;
    upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  };
};

export const listenerLimits = {
  /** For the head of a request, and before it for the handshake of TLS. */
  headersTimeoutMs: 30_000,
  keepAliveTimeoutMs: 120_000,
  /** More at once are closed as they come; streams of HTTP/2 count (http2/stream-bounds.ts). */
  connectionsMax: 10_000,
  /** How long the rest of a body is read and thrown away after its answer: a client that is still sending must get to see it. */
  lateBodyMs: lateBytesMs,
  /** How long the end of an answer by HTTP/2 may wait for a caller who does not take it. */
  untakenMs: 300_000,
};

export type ListenerOptions = {
  /** Undefined: everything is said in the clear. */
  tls?: Tls | undefined;
  /** Addresses and networks of proxies, which many callers share. */
  proxies?: readonly string[];
};

/** Opens the port before the parts behind it exist, so that the address is known; requests are held until `serve` connects them. */
export async function openListener(
  listen: string,
  limits = listenerLimits,
  { tls, proxies = [] }: ListenerOptions = {},
): Promise<Listener & { serve(handlers: Handlers): void }> {
  const server = createServer({
    // Uploads take as long as they take; a slow header is an attack, a slow body is a slow line.
    requestTimeout: 0,
    headersTimeout: limits.headersTimeoutMs,
    connectionsCheckingInterval: limits.headersTimeoutMs / 2,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    requireHostHeader: false,
    // An offer of anything else, such as HTTP/2 without TLS, is declined by answering the request as it is.
    shouldUpgradeCallback: ({ headers }) => headers.upgrade?.toLowerCase() === "websocket",
    noDelay: true,
    highWaterMark: 256 * 1024,
  });
  server.maxConnections = limits.connectionsMax;
  const sockets = new Set<Duplex>();
  const bounds = new StreamBounds({
    connectionsMax: limits.connectionsMax,
    countConnections: () => sockets.size,
    isProxy: matchNetworks(proxies),
  });
  acceptConnections(server, { limits, tls, bounds, sockets });
  const address = await listenOn(server, parseListen(listen));
  const started = Promise.withResolvers<Handlers>();
  let handlers: Handlers | undefined;
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    // Nobody would hear the answer.
    if (request.socket.writableEnded) return void request.socket.destroy();
    timingOf(request);
    watchAnswer(request, response, limits.lateBodyMs);
    const refusal = normalizeTarget(request);
    if (refusal !== undefined) return refuseRequest(request, response, refusal);
    if (handlers !== undefined) dispatch(handlers, request, response);
    else void started.promise.then((late) => dispatch(late, request, response));
  };
  server.on("request", onRequest);
  server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
    askWhenRead(request, response);
    onRequest(request, response);
  });
  // Expectations nobody knows are ignored.
  server.on("checkExpectation", onRequest);
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    timingOf(request);
    // Nobody else listens yet, and an error nobody listens to would end the process.
    socket.on("error", () => socket.destroy());
    // What is still to be answered on this connection would come between the bytes of the tunnel.
    if (isAnswerOwed(socket)) return void socket.destroy();
    if (normalizeTarget(request) !== undefined) return void refuseConnection(socket, "400 Bad Request");
    void started.promise.then(({ edge }) => {
      if (!socket.destroyed) edge.upgrade(request, socket, head);
    });
  });
  server.on("clientError", refuseClient);
  return {
    server,
    origin: `${tls === undefined ? "http" : "https"}://${address.family === "IPv6" ? `[${address.address}]` : address.address}:${address.port}`,
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

type Acceptance = { limits: typeof listenerLimits; tls: Tls | undefined; bounds: StreamBounds; sockets: Set<Duplex> };

function acceptConnections(server: Server, { limits, tls, bounds, sockets }: Acceptance): void {
  const [serveHttp1] = server.listeners("connection").slice(-1) as [(connection: Duplex) => void];
  const serve = serveHttp1.bind(server);
  server.off("connection", serveHttp1);
  const http2 = createHttp2Server({
    serve,
    untakenMs: limits.untakenMs,
    idleMs: limits.keepAliveTimeoutMs,
    bounds,
  });
  const serveHttp2 = (socket: Duplex): void => void http2.emit("connection", socket);
  const timeoutMs = limits.headersTimeoutMs;
  const secure = tls?.secure({
    handshakeTimeoutMs: timeoutMs,
    // Whoever does not say which protocol is meant means HTTP/1 (RFC 9113, 3.2).
    onSecure: (socket) => (socket.alpnProtocol === "h2" ? serveHttp2 : serve)(socket),
  });
  const begin = lookAtFirst(secure === undefined ? choosesHttp(serve, serveHttp2) : choosesTls(secure), timeoutMs);
  server.on("connection", (socket: Socket) => {
    if (sockets.size + bounds.count >= limits.connectionsMax) return void socket.destroy();
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    begin(socket);
  });
}

function matchNetworks(networks: readonly string[]): (address: string) => boolean {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", bits] = network.split("/");
    const family = isIPv4(address) ? "ipv4" : "ipv6";
    list.addSubnet(address, Number(bits ?? (family === "ipv4" ? 32 : 128)), family);
  }
  return (address) =>
    list.check(address.replace(/^::ffff:/, ""), isIPv4(address.replace(/^::ffff:/, "")) ? "ipv4" : "ipv6");
}

const listenFailures: Readonly<Record<string, string>> = {
  EADDRINUSE: "is taken",
  EADDRNOTAVAIL: "is at no address of this machine",
  ENOTFOUND: "is at no address that is known",
  EAI_AGAIN: "is at no address that is known",
  EACCES: "is not for this user to answer on",
};

async function listenOn(server: Server, { host, port }: { host: string; port: number }): Promise<AddressInfo> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const reason = listenFailures[error.code ?? ""];
      if (reason === undefined) return reject(error);
      const message = `Port ${port} on ${host} ${reason}; choose another with --listen or CATNAP_LISTEN.`;
      reject(new AppError("conflict", message, { cause: error }));
    });
    server.listen(port, host, resolve);
  });
  return server.address() as AddressInfo;
}

function dispatch({ controlPlane, edge }: Handlers, request: IncomingMessage, response: ServerResponse): void {
  // Whoever asked may have left while the platform started.
  if (response.closed) return;
  if (isControlPlane(request.url ?? "/") && !edge.owns(request)) controlPlane(request, response);
  else edge.handle(request, response);
}

function isControlPlane(url: string): boolean {
  return isBelow(url, "/v0") || isBelow(url, "/docs") || isBelow(url, authorizationServerMetadataPath);
}

function isBelow(url: string, path: string): boolean {
  return url.startsWith(path) && (url.length === path.length || url[path.length] === "/" || url[path.length] === "?");
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
