// gRPC calls to servers that fall silent: before the answer it is a timeout, behind its head the answer breaks off.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer as createHttpServer, type IncomingMessage, request, type Server } from "node:http";
import { createServer } from "node:http2";
import { type AddressInfo, connect, type Server as NetServer } from "node:net";
import { test } from "node:test";
import { createLogger } from "../../src/core/log.ts";
import { carryGrpcCall } from "../../src/sandbox-api/ports/grpc-call.ts";
import type { CallTimeouts } from "../../src/sandbox-api/ports/port-call.ts";
import type { SessionContext } from "../../src/sandbox-api/session-context.ts";

async function listen<S extends NetServer>(server: S): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** Carries each request to a server that says nothing, or the head of an answer and nothing more. */
async function start(timeouts: CallTimeouts, { answers }: { answers: boolean }) {
  const silent = createServer();
  const sessions = new Set<{ destroy(): void }>();
  silent.on("session", (session) => {
    sessions.add(session);
    session.on("error", () => undefined);
  });
  silent.on("stream", (stream) => {
    stream.on("error", () => undefined);
    if (answers) stream.respond({ "content-type": "application/grpc" });
  });
  const port = await listen(silent as unknown as NetServer);
  const session = {
    machine: { guest: { connect: (inside: number) => Promise.resolve(connect(inside, "127.0.0.1")) } },
    ended: new AbortController().signal,
    log: createLogger("silent"),
  } as unknown as SessionContext;
  const door: Server = createHttpServer((incoming, response) => {
    carryGrpcCall({ request: incoming, response, target: { port, path: "/x" }, session, timeouts });
  });
  const doorPort = await listen(door);
  return {
    async ask(): Promise<IncomingMessage> {
      const sent = request({ port: doorPort, host: "127.0.0.1", method: "POST", agent: false }).end("message");
      const [response] = (await once(sent, "response")) as [IncomingMessage];
      return response;
    },
    async [Symbol.asyncDispose]() {
      for (const each of sessions) each.destroy();
      door.closeAllConnections();
      await Promise.all([door, silent].map((server) => new Promise((resolve) => server.close(resolve))));
    },
  };
}

const never = 3_600_000;

test("a server that does not begin to answer is a timeout", async () => {
  await using calls = await start({ answerMs: 100, silenceMs: never, intervalMs: 10 }, { answers: false });
  const response = await calls.ask();
  assert.equal(response.statusCode, 504);
  assert.match(Buffer.concat(await response.toArray()).toString(), /port \d+ did not answer in time/);
});

test("an answer that falls silent breaks off, which its end would not tell", async () => {
  await using calls = await start({ answerMs: never, silenceMs: 100, intervalMs: 10 }, { answers: true });
  const response = await calls.ask();
  assert.equal(response.statusCode, 200);
  await assert.rejects(response.toArray());
  assert.equal(response.complete, false);
});
