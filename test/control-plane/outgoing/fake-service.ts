// A service outside, as a real HTTP server on loopback: what it is asked is kept, what it answers is the test's.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";

export type Asked = { method: string; url: URL; headers: IncomingMessage["headers"] };
export type Respond = (response: ServerResponse, asked: Asked) => void;

export type FakeService = AsyncDisposable & {
  origin: string;
  /** As the operator lists it. */
  host: string;
  asked: Asked[];
  connections: () => number;
};

export async function startService(respond: Respond, tls?: { key: string; cert: string }): Promise<FakeService> {
  const asked: Asked[] = [];
  let connections = 0;
  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    const url = new URL(request.url ?? "/", "http://service.invalid");
    const one: Asked = { method: request.method ?? "", url, headers: request.headers };
    asked.push(one);
    response.on("error", () => undefined);
    respond(response, one);
  };
  const server = tls === undefined ? createServer(handle) : createTlsServer(tls, handle);
  server.on("connection", () => connections++);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    origin: `${tls === undefined ? "http" : "https"}://127.0.0.1:${port}`,
    host: `127.0.0.1:${port}`,
    asked,
    connections: () => connections,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}
