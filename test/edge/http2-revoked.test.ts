// What was let in by HTTP/2 ends with the right to be there, like everything else that is open.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer as createHttp1Server } from "node:http";
import { type ClientHttp2Stream, connect, createServer, type OutgoingHttpHeaders } from "node:http2";
import type { AddressInfo, Server, Socket } from "node:net";
import { after, before, test } from "node:test";
import { WebSocketServer } from "ws";
import { eventually } from "../eventually.ts";
import { apiKey, HostHarness } from "../host/harness.ts";

let harness: HostHarness;
const servers: Server[] = [];
const inside = new Set<Socket>();

before(async () => {
  harness = await HostHarness.start({ recheckIntervalMs: 20 });
  await harness.create("box");
});
after(async () => {
  for (const socket of inside) socket.destroy();
  for (const server of servers) server.close();
  await harness[Symbol.asyncDispose]();
});

async function listen(server: Server): Promise<number> {
  servers.push(server);
  server.on("connection", (socket: Socket) => {
    inside.add(socket);
    socket.once("close", () => inside.delete(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

test("streams, gRPC calls and WebSockets end when their sandbox is disabled, and inside they are ended, too", async () => {
  const grpc = createServer();
  grpc.on("session", (session) => session.on("error", () => undefined));
  grpc.on("stream", (stream) => {
    stream.on("error", () => undefined);
    stream.respond({ "content-type": "application/grpc" });
    stream.write("begun");
  });
  const plain = createHttp1Server((_request, response) => void response.write("begun"));
  const sockets = new WebSocketServer({ server: plain });
  sockets.on("connection", (socket) => socket.on("error", () => undefined).send("begun"));
  const ports = { grpc: await listen(grpc as unknown as Server), plain: await listen(plain) };
  const session = connect(harness.url);
  await once(session, "remoteSettings");
  const open = (port: number, headers: OutgoingHttpHeaders): ClientHttp2Stream => {
    const sent = { ":path": `/run/main/sandboxes/box/port/${port}/`, authorization: `Bearer ${apiKey}`, ...headers };
    const stream = session.request(sent, { endStream: false });
    return stream.on("error", () => undefined);
  };
  const webSocket = { ":method": "CONNECT", ":protocol": "websocket", "sec-websocket-version": "13" };
  const streams = [
    open(ports.plain, {}),
    open(ports.grpc, { ":method": "POST", "content-type": "application/grpc" }),
    open(ports.plain, { ...webSocket, ":scheme": "http", ":authority": "x" }),
  ];
  streams[0]!.end();
  try {
    await Promise.all(streams.map((stream) => once(stream, "data")));
    assert.equal(inside.size, 3);
    const ended = Promise.all(
      streams.map((stream) => new Promise<void>((resolve) => stream.resume().once("close", () => resolve()))),
    );
    harness.routes.get("box")!.enabled = false;
    await ended;
    assert.ok(streams.every(({ rstCode }) => rstCode !== 0));
    await eventually(() => assert.equal(inside.size, 0), { intervalMs: 10 });
  } finally {
    session.destroy();
  }
});
