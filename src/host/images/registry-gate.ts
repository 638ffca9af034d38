// The only way from a pull to the network: an HTTP proxy on a unix socket that lets connections out to public addresses and to
// registries the operator listed. A registry may redirect anywhere, so every connection is checked, and by the address it goes to.
import type { LookupAddress } from "node:dns";
import { lookup } from "node:dns/promises";
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { isPublicAddress } from "../../core/public-address.ts";

export type GateOptions = {
  socketPath: string;
  /** `host:port` reachable whatever its address is, and over plain HTTP. */
  insecureRegistries: readonly string[];
  receivedMaxBytes: number;
  lookupAddresses?: (host: string) => Promise<LookupAddress[]>;
};

/** Why the gate stopped something, for the error message of the pull; the first reason counts. */
export type GateRefusal = "inner_address" | "plain_http" | "too_large";

export type RegistryGate = AsyncDisposable & { readonly refusal: GateRefusal | undefined };

const connectTimeoutMs = 10_000;
const idleTimeoutMs = 60_000;
const connectionsMax = 64;

export async function openRegistryGate(options: GateOptions): Promise<RegistryGate> {
  const gate = new Gate(options);
  await gate.listen();
  return gate;
}

class Gate implements RegistryGate {
  readonly #options: GateOptions;
  readonly #server = createServer((request, response) => this.#forward(request, response));
  readonly #sockets = new Set<Duplex>();
  #receivedBytes = 0;
  refusal: GateRefusal | undefined;

  constructor(options: GateOptions) {
    this.#options = options;
    this.#server.maxConnections = connectionsMax;
    this.#server.on("connection", (socket) => this.#track(socket));
    this.#server.on("connect", (request: IncomingMessage, client: Duplex, head: Buffer) =>
      this.#tunnel(request, client, head),
    );
  }

  listen(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject).listen(this.#options.socketPath, resolve);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** CONNECT host:port, which is how TLS connections ask for their way. */
  #tunnel(request: IncomingMessage, client: Duplex, head: Buffer): void {
    const target = parseTarget(request.url ?? "");
    if (target === undefined) return void client.end("HTTP/1.1 400 Bad Request\r\n\r\n");
    this.#connect(target.host, target.port)
      .then((upstream) => {
        if (client.destroyed) return void upstream.destroy();
        client.write("HTTP/1.1 200 Connection Established\r\n\r\n");
        upstream.write(head);
        upstream.pipe(client);
        client.pipe(upstream);
        upstream.on("close", () => client.destroy());
        client.on("close", () => upstream.destroy());
      })
      .catch(() => client.end("HTTP/1.1 403 Forbidden\r\n\r\n"));
  }

  /** A whole URL, which is how plain HTTP asks: only for listed registries. */
  #forward(request: IncomingMessage, response: ServerResponse): void {
    const url = URL.canParse(request.url ?? "") ? new URL(request.url ?? "") : undefined;
    const port = Number(url?.port || 80);
    if (url?.protocol !== "http:" || !this.#isListed(url.hostname, port)) {
      this.refusal ??= "plain_http";
      response.writeHead(403).end();
      return;
    }
    const { method, headers } = request;
    const upstream = httpRequest(url, { method, headers, timeout: idleTimeoutMs }, (answer) => {
      answer.on("data", (chunk: Buffer) => this.#count(chunk.length));
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
      answer.on("error", () => response.destroy());
    });
    upstream.on("socket", (socket) => this.#track(socket));
    upstream.on("timeout", () => upstream.destroy());
    upstream.on("error", () => (response.headersSent ? response.destroy() : response.writeHead(502).end()));
    response.on("close", () => upstream.destroy());
    request.pipe(upstream);
  }

  async #connect(host: string, port: number): Promise<Socket> {
    const find = this.#options.lookupAddresses ?? ((name: string) => lookup(name, { all: true }));
    const addresses = await find(host);
    const allowed = this.#isListed(host, port)
      ? addresses
      : addresses.filter(({ address }) => isPublicAddress(address));
    const [first] = allowed;
    if (first === undefined) {
      this.refusal ??= "inner_address";
      throw new Error(`${host} has no public address`);
    }
    const upstream = connect({ host: first.address, port });
    this.#track(upstream);
    upstream.on("data", (chunk: Buffer) => this.#count(chunk.length));
    upstream.pause();
    await new Promise<void>((resolve, reject) => {
      upstream.setTimeout(connectTimeoutMs, () => upstream.destroy(new Error("no connection in time")));
      upstream.once("connect", resolve).once("error", reject);
    });
    upstream.setTimeout(idleTimeoutMs, () => upstream.destroy());
    return upstream;
  }

  #isListed(host: string, port: number): boolean {
    return this.#options.insecureRegistries.includes(`${host}:${port}`);
  }

  #count(bytes: number): void {
    this.#receivedBytes += bytes;
    if (this.#receivedBytes <= this.#options.receivedMaxBytes) return;
    this.refusal ??= "too_large";
    for (const socket of this.#sockets) socket.destroy();
  }

  #track(socket: Duplex): void {
    this.#sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => this.#sockets.delete(socket));
  }
}

function parseTarget(text: string): { host: string; port: number } | undefined {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]{1,253})):(\d{1,5})$/.exec(text);
  if (match === null) return undefined;
  return { host: (match[1] ?? match[2]!).toLowerCase(), port: Number(match[3]) };
}
