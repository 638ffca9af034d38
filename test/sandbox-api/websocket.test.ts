// WebSocket connections through /port/{n}.
import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { buffer } from "node:stream/consumers";
import { after, afterEach, before, test } from "node:test";
import { WebSocket, WebSocketServer } from "ws";
import { eventually } from "../eventually.ts";
import { TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
const closing: (() => void)[] = [];
before(async () => {
  sandbox = await TestSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

async function echoServer(): Promise<{
  port: number;
  server: WebSocketServer;
  headers: () => Record<string, unknown>;
}> {
  const server = new WebSocketServer({
    port: 0,
    host: "127.0.0.1",
    handleProtocols: (protocols) => [...protocols][0]!,
  });
  let headers: Record<string, unknown> = {};
  server.on("connection", (socket, request) => {
    headers = request.headers;
    socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
  });
  closing.push(() => {
    for (const client of server.clients) client.terminate();
    server.close();
  });
  await once(server, "listening");
  return { port: (server.address() as AddressInfo).port, server, headers: () => headers };
}

function openSocket(port: number, options: { protocols?: string[]; headers?: Record<string, string> } = {}): WebSocket {
  const url = `ws://127.0.0.1:${sandbox.port}/port/${port}/socket?x=1`;
  const socket = new WebSocket(url, options.protocols, { headers: options.headers });
  closing.push(() => socket.terminate());
  return socket;
}

async function answerWith(bytes: string): Promise<number> {
  const server: Server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", () => socket.end(bytes));
  });
  closing.push(() => server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** Sends a raw upgrade request and resolves with everything that comes back. */
async function upgradeRaw(path: string, extra = ""): Promise<string> {
  const socket = connect(sandbox.port, "127.0.0.1");
  const key = "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
  socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n${key}${extra}\r\n`);
  return (await buffer(socket)).toString();
}

test("text and binary messages of every size come back unchanged, in order", async () => {
  const { port } = await echoServer();
  const socket = openSocket(port);
  await once(socket, "open");
  const sizes = [0, 1, 125, 126, 65_535, 65_536, 1_000_000];
  const received: Buffer[] = [];
  socket.on("message", (data: Buffer) => received.push(data));
  for (const size of sizes) socket.send(Buffer.alloc(size, size % 251));
  await eventually(() => assert.equal(received.length, sizes.length));
  for (const [index, size] of sizes.entries()) assert.ok(received[index]!.equals(Buffer.alloc(size, size % 251)));
});

test("protocol, origin and host pass; credentials for the platform do not", async () => {
  const { port, headers } = await echoServer();
  const own = { "x-blaxel-authorization": "Bearer secret", origin: "https://app.example", host: "sbx.example" };
  const socket = openSocket(port, { protocols: ["graphql-ws"], headers: own });
  const upgraded = once(socket, "upgrade") as Promise<[{ headers: Record<string, string> }]>;
  await once(socket, "open");
  const [response] = await upgraded;
  assert.equal(socket.protocol, "graphql-ws");
  assert.match(response.headers["server-timing"]!, /^proxy;dur=/);
  const seen = headers();
  assert.deepEqual(
    [seen.origin, seen.host, seen["x-blaxel-authorization"]],
    ["https://app.example", "sbx.example", undefined],
  );
});

test("either side's close reaches the other", async () => {
  const { port, server } = await echoServer();
  const first = openSocket(port);
  await once(first, "open");
  for (const client of server.clients) client.close(4_001, "done");
  const [code] = (await once(first, "close")) as [number];
  assert.equal(code, 4_001);
  const second = openSocket(port);
  await once(second, "open");
  second.terminate();
  await eventually(() => assert.equal(server.clients.size, 0));
});

test("a server that does not agree is passed on as it answers", async () => {
  const port = await answerWith(
    "HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\nx-why: because\r\nconnection: keep-alive\r\n\r\nno",
  );
  const answer = await upgradeRaw(`/port/${port}/`);
  assert.match(answer, /^HTTP\/1\.1 403 Forbidden\r\n/);
  assert.match(answer, /x-why: because\r\n/);
  assert.match(answer, /connection: close\r\n/);
  assert.match(answer, /\r\n\r\nno$/);
});

test("an interim answer before the agreement is skipped", async () => {
  const agreed = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nbytes";
  const port = await answerWith(`HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n${agreed}`);
  const answer = await upgradeRaw(`/port/${port}/`);
  assert.match(answer, /^HTTP\/1\.1 101 Switching Protocols\r\n/);
  assert.match(answer, /\r\n\r\nbytes$/);
});

for (const [what, bytes] of [
  ["is not HTTP", "SSH-2.0-OpenSSH\r\n\r\n"],
  ["ends early", "HTTP/1.1 101 Swit"],
  ["has a header with a line break", "HTTP/1.1 101 OK\r\nx: a\rb\r\n\r\n"],
  ["folds a header", "HTTP/1.1 101 OK\r\nx: a\r\n b\r\n\r\n"],
  ["has endless headers", `HTTP/1.1 101 OK\r\n${"x: y\r\n".repeat(30_000)}`],
] as const) {
  test(`an answer that ${what} is 502`, async () => {
    const answer = await upgradeRaw(`/port/${await answerWith(bytes)}/`);
    assert.match(answer, /^HTTP\/1\.1 502 Bad Gateway\r\n/);
    assert.match(answer, /\{"error":"/);
  });
}

test("nothing listening is 502, other upgrades are refused, other paths are 404", async () => {
  const port = await answerWith("");
  closing.pop()!();
  assert.match(await upgradeRaw(`/port/${port}/`), new RegExp(`^HTTP/1\\.1 502 .*port ${port}`, "s"));
  assert.match(await upgradeRaw("/process"), /^HTTP\/1\.1 404 /);
  assert.match(await upgradeRaw("/port/0/"), /^HTTP\/1\.1 400 /);
  const socket = connect(sandbox.port, "127.0.0.1");
  socket.write("GET /port/80/ HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n");
  assert.match((await buffer(socket)).toString(), /^HTTP\/1\.1 400 .*WebSocket/s);
});

test("the end of the session ends its tunnels", async () => {
  const { port } = await echoServer();
  const socket = openSocket(port);
  socket.on("error", () => undefined);
  await once(socket, "open");
  await sandbox.restart();
  if (socket.readyState !== WebSocket.CLOSED) await once(socket, "close");
  assert.equal(socket.readyState, WebSocket.CLOSED);
});

test("a server that closes its half is heard to its end by a slow caller, and hears the caller after that", async () => {
  const size = 8 * 1024 * 1024;
  let heard = "";
  const server: Server = createServer({ allowHalfOpen: true }, (socket) => {
    socket
      .on("error", () => undefined)
      .once("data", () => {
        const header = Buffer.from([0x82, 127, 0, 0, 0, 0, 0, 0, 0, 0]);
        header.writeBigUInt64BE(BigInt(size), 2);
        socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
        socket.end(Buffer.concat([header, Buffer.alloc(size)]));
        socket.on("data", (bytes) => {
          heard += bytes.toString("latin1");
        });
      });
    closing.push(() => socket.destroy());
  });
  closing.push(() => server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const socket = connect({ port: sandbox.port, host: "127.0.0.1", allowHalfOpen: true });
  closing.push(() => socket.destroy());
  socket.write(`GET /port/${port}/ HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n`);
  let received = 0;
  socket.on("data", (bytes: Buffer) => {
    received += bytes.length;
    socket.pause();
    setImmediate(() => socket.resume());
  });
  await once(socket, "end");
  assert.ok(received > size, `${received}`);
  socket.end("\x88\x80\0\0\0\0", "latin1");
  await eventually(() => assert.equal(heard.length, 6));
});
