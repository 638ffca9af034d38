// WebSocket over HTTP/2 (RFC 8441): a stream becomes the connection of an upgrade, under the same rules and bounds.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type ClientHttp2Session, type ClientHttp2Stream, connect, type IncomingHttpHeaders } from "node:http2";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { WebSocketServer } from "ws";
import { eventually } from "../eventually.ts";
import { apiKey, HostHarness } from "../host/harness.ts";

let harness: HostHarness;
let session: ClientHttp2Session;
let server: Server;
let sockets: WebSocketServer;
let port = 0;
const seen: IncomingHttpHeaders[] = [];

before(async () => {
  harness = await HostHarness.start({ idleTimeoutMs: 100 });
  await harness.create("box");
  server = createServer((_request, response) => void response.writeHead(403, { "x-why": "no" }).end("refused"));
  server.on("upgrade", (request, socket) => {
    seen.push(request.headers);
    if (request.url === "/broken") {
      return socket.end(
        "HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: x\r\n\r\n",
      );
    }
    if (request.url === "/refused") return socket.end("HTTP/1.1 403 x\r\ncontent-length: 2\r\nx-why: no\r\n\r\nno");
    sockets.handleUpgrade(request, socket, Buffer.alloc(0), (client) => sockets.emit("connection", client, request));
  });
  sockets = new WebSocketServer({ noServer: true, handleProtocols: () => "chat", maxPayload: 1 << 20 });
  sockets.on("connection", (client) => {
    client.on("error", () => undefined);
    client.on("message", (data, isBinary) => client.send(data, { binary: isBinary }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  ({ port } = server.address() as AddressInfo);
  session = connect(harness.url);
  await once(session, "remoteSettings");
});
after(async () => {
  session?.destroy();
  for (const client of sockets?.clients ?? []) client.terminate();
  server?.closeAllConnections();
  server?.close();
  await harness[Symbol.asyncDispose]();
});

function open(path: string, headers: Record<string, string> = {}): ClientHttp2Stream {
  const stream = session.request(
    {
      ":method": "CONNECT",
      ":protocol": "websocket",
      ":scheme": "http",
      ":authority": "my.example",
      ":path": `/run/main/sandboxes/box${path}`,
      authorization: `Bearer ${apiKey}`,
      "sec-websocket-version": "13",
      ...headers,
    },
    { endStream: false },
  );
  stream.on("error", () => undefined);
  stream.setTimeout(60_000, () => stream.destroy());
  return stream;
}

/** Of a client: masked with zeros. */
function frame(opcode: number, payload: Buffer | string): Buffer {
  const content = Buffer.from(payload);
  assert.ok(content.length < 65_536);
  const size = content.length < 126 ? [0x80 | content.length] : [0xfe, content.length >> 8, content.length & 0xff];
  return Buffer.concat([Buffer.from([0x80 | opcode, ...size]), Buffer.alloc(4), content]);
}

const begun = async (stream: ClientHttp2Stream): Promise<IncomingHttpHeaders> =>
  ((await once(stream, "response")) as [IncomingHttpHeaders])[0];

test("the platform says that it can", () => {
  assert.equal(session.remoteSettings.enableConnectProtocol, true);
});

test("messages pass both ways to a server inside, which sees an upgrade like any other", async () => {
  const stream = open(`/port/${port}/socket?x=1`, { "sec-websocket-protocol": "chat", origin: "http://my.example" });
  const head = await begun(stream);
  assert.deepEqual([head[":status"], head["sec-websocket-protocol"]], [200, "chat"]);
  assert.deepEqual([head["sec-websocket-accept"], head.upgrade, head.connection], [undefined, undefined, undefined]);
  const { host, origin, authorization, "sec-websocket-key": key } = seen.at(-1)!;
  assert.deepEqual([host, origin, authorization], ["my.example", "http://my.example", undefined]);
  assert.match(key!, /^[\w+/]{22}==$/);
  for (const text of ["one", "two"]) {
    stream.write(frame(1, text));
    assert.equal(String((await once(stream, "data"))[0].subarray(2)), text);
  }
  const ended = once(stream, "end");
  stream.on("data", () => undefined);
  stream.write(frame(8, Buffer.from([3, 232])));
  await ended;
  stream.end();
});

test("a caller that leaves is gone inside, and the other way round", async () => {
  const leaving = open(`/port/${port}/`);
  await begun(leaving);
  await eventually(() => assert.equal(sockets.clients.size, 1), { intervalMs: 10 });
  leaving.close(8);
  await eventually(() => assert.equal(sockets.clients.size, 0), { intervalMs: 10 });
  const left = open(`/port/${port}/`);
  await begun(left);
  await eventually(() => assert.equal(sockets.clients.size, 1), { intervalMs: 10 });
  const ended = once(left.resume(), "end");
  for (const client of sockets.clients) client.terminate();
  await ended;
  left.end();
  await once(left, "close");
});

test("refusals come as they are, and an agreement that is none is 502", async () => {
  const refused = open(`/port/${port}/refused`);
  const head = await begun(refused);
  assert.deepEqual([head[":status"], head["x-why"], String(await once(refused, "data"))], [403, "no", "no"]);
  assert.equal((await begun(open(`/port/${port}/broken`)))[":status"], 502);
  assert.equal((await begun(open("/port/1/")))[":status"], 502);
  assert.equal((await begun(open("/nothing")))[":status"], 404);
  assert.equal((await begun(open(`/port/${port}/`, { authorization: "Bearer wrong" })))[":status"], 401);
});

test("a terminal is served", async () => {
  const stream = open("/terminal/ws?cols=80&rows=24");
  const head = await begun(stream);
  let text = "";
  stream.on("data", (bytes: Buffer) => {
    text += bytes.toString("latin1");
  });
  assert.equal(head[":status"], 200, text);
  stream.write(frame(1, JSON.stringify({ type: "input", data: "echo $((40+2))\n" })));
  await eventually(() => assert.match(text, /42/), { intervalMs: 20 });
  stream.close(8);
});

test("any other protocol, and CONNECT without one, is refused", async () => {
  const other = open(`/port/${port}/`, { ":protocol": "chat" });
  assert.equal((await begun(other))[":status"], 501);
  const plain = session.request({ ":method": "CONNECT", ":authority": "x:1" });
  plain.on("error", () => undefined);
  assert.equal((await begun(plain))[":status"], 400);
  plain.close();
});

test("pings of the connection keep nothing awake, and a message wakes", async () => {
  const stream = open(`/port/${port}/`);
  await begun(stream);
  await eventually(() => assert.equal(harness.status("box").state, "STANDBY"), { intervalMs: 10 });
  stream.write(frame(1, "wake"));
  assert.equal(String((await once(stream, "data"))[0].subarray(2)), "wake");
  stream.close(8);
});

test("a megabyte passes in frames, both ways", async () => {
  const stream = open(`/port/${port}/`);
  await begun(stream);
  let bytes = 0;
  stream.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
  });
  const piece = frame(2, Buffer.alloc(60_000, 7));
  for (let count = 0; count < 100; count++) stream.write(piece);
  await eventually(() => assert.equal(bytes, 100 * 60_004), { intervalMs: 10 });
  stream.close(8);
});
