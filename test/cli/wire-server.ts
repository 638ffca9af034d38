// A server that answers what a test tells it to, in the wire format of the platform, and remembers what it was asked.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type Asked = { method: string; url: string; headers: IncomingMessage["headers"]; body: Buffer };

export type Answer = (asked: Asked, response: ServerResponse) => unknown;

export type WireServer = AsyncDisposable & { url: string; asked: Asked[]; env: Record<string, string> };

/** Routes are `METHOD /path`, without the query; each takes its answers in turn and stays at the last. */
export async function serveWire(routes: Record<string, Answer | Answer[]>): Promise<WireServer> {
  const asked: Asked[] = [];
  const taken = new Map<string, number>();
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const { method = "", url = "" } = request;
    const question: Asked = { method, url, headers: request.headers, body: Buffer.concat(chunks) };
    asked.push(question);
    const key = `${method} ${url.split("?")[0]}`;
    const count = taken.get(key) ?? 0;
    taken.set(key, count + 1);
    const route = routes[key];
    const answer = Array.isArray(route) ? route[Math.min(count, route.length - 1)] : route;
    if (answer === undefined)
      json(404, { error: "not_found", code: 404, message: `no route ${key}` })(question, response);
    else await answer(question, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    asked,
    env: { CATNAP_URL: url, CATNAP_API_KEY: "test-key" },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export function json(status: number, body: unknown, headers: Record<string, string> = {}): Answer {
  return (_, response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
  };
}

/** The connection is cut without an answer. */
export const reset: Answer = (_, response) => response.socket?.destroy();

export function sandbox(name: string, more: Record<string, unknown> = {}) {
  return {
    metadata: { name, workspace: "main", createdAt: "2026-01-02T03:04:05.000Z" },
    spec: { region: "local", runtime: { image: "blaxel/base-image:latest", memory: 2048 } },
    status: "DEPLOYED",
    state: "RUNNING",
    ...more,
  };
}

export const sandboxPath = (name: string): string => `/run/main/sandboxes/${name}`;
