// Streams and tunnels end soon after their credential does, and not because something else is out of order.
import assert from "node:assert/strict";
import { once } from "node:events";
import { request as ask, createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { test } from "node:test";
import { AppError } from "../../src/core/errors.ts";
import { createLogger } from "../../src/core/log.ts";
import { createEdge } from "../../src/edge/server.ts";

type Refusal = "none" | "unauthenticated" | "forbidden" | "unavailable";

/** A credential whose check never ends once `hangs` is set. */
const hanging = "Bearer hanging";

async function startStreaming() {
  const state = { refusal: "none" as Refusal, enabled: true, hangs: false, checks: 0 };
  const edge = createEdge({
    directory: {
      async authorize(credential) {
        state.checks += 1;
        if (state.hangs && hanging.endsWith(credential)) return await new Promise<never>(() => undefined);
        if (state.refusal !== "none") throw new AppError(state.refusal, "refused");
        return { id: "tester", kind: "user", role: "member", workspace: "main", scopes: ["sandboxes:control"] };
      },
      findRoute: () => ({ instanceId: "box", status: "DEPLOYED", enabled: state.enabled }),
      findWorkspaceById: () => undefined,
      findPreview: async () => undefined,
      verifyPreviewToken: async () => false,
      isPlatformCredential: () => false,
    },
    host: {
      handle: (_id, _request, response) => void response.write("begun"),
      upgrade: (_id, _request, socket) =>
        void socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"),
    },
    pathPrefix: "/run",
    sandboxDomain: undefined,
    log: createLogger("silent"),
    recheckIntervalMs: 10,
    recheckTimeoutMs: 30,
  });
  const server = createServer((request: IncomingMessage, response: ServerResponse) => edge.handle(request, response));
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => edge.upgrade(request, socket, head));
  const sockets = new Set<Duplex>();
  server.on("connection", (socket) => sockets.add(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const open = async (upgrades: boolean, authorization = "Bearer key"): Promise<Duplex | IncomingMessage> => {
    const headers = {
      authorization,
      ...(upgrades && { connection: "upgrade", upgrade: "websocket" }),
    };
    const sent = ask({ port, host: "127.0.0.1", path: "/run/main/sandboxes/box/x", headers, agent: false }).end();
    if (!upgrades) return ((await once(sent, "response")) as [IncomingMessage])[0].resume();
    return ((await once(sent, "upgrade")) as [IncomingMessage, Duplex])[1].resume();
  };
  return {
    state,
    open,
    /** Resolves after as many more checks. */
    async checked(count: number): Promise<void> {
      const wanted = state.checks + count;
      while (state.checks < wanted) await new Promise((resolve) => setImmediate(resolve));
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

for (const upgrades of [false, true]) {
  const what = upgrades ? "a tunnel" : "a stream";
  for (const refusal of ["unauthenticated", "forbidden"] as const) {
    test(`${what} ends when its credential is ${refusal}`, async () => {
      await using platform = await startStreaming();
      const connection = await platform.open(upgrades);
      await platform.checked(3);
      assert.equal(connection.destroyed, false);
      const closed = once(connection, "close").catch(() => undefined);
      connection.on("error", () => undefined);
      platform.state.refusal = refusal;
      await closed;
    });
  }

  test(`${what} ends when its sandbox is disabled`, async () => {
    await using platform = await startStreaming();
    const connection = await platform.open(upgrades);
    connection.on("error", () => undefined);
    const closed = once(connection, "close").catch(() => undefined);
    platform.state.enabled = false;
    await closed;
  });

  test(`${what} stays while nobody can say whether its credential is good`, async () => {
    await using platform = await startStreaming();
    const connection = await platform.open(upgrades);
    connection.on("error", () => undefined);
    platform.state.refusal = "unavailable";
    await platform.checked(3);
    assert.equal(connection.destroyed, false);
    platform.state.refusal = "none";
    await platform.checked(3);
    assert.equal(connection.destroyed, false);
    connection.destroy();
  });
}

test("checks that hang stop nobody else's, and not their own for ever", async () => {
  await using platform = await startStreaming();
  const stuck = await Promise.all(Array.from({ length: 60 }, () => platform.open(false, hanging)));
  const other = await platform.open(false);
  for (const connection of [...stuck, other]) connection.on("error", () => undefined);
  platform.state.hangs = true;
  await platform.checked(120);
  const closed = once(other, "close").catch(() => undefined);
  platform.state.refusal = "unauthenticated";
  await closed;
  assert.ok(stuck.every(({ destroyed }) => !destroyed));
  const ended = Promise.all(stuck.map((connection) => once(connection, "close").catch(() => undefined)));
  platform.state.hangs = false;
  await ended;
});
