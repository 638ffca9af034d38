// Clients that hold an answer or a body without moving it.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterEach, test } from "node:test";
import { guardAnswer, guardBody } from "../../src/sandbox-api/stall-guard.ts";

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

async function serve(listener: (request: IncomingMessage, response: ServerResponse) => void): Promise<Socket> {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  closing.push(() => {
    socket.destroy();
    server.closeAllConnections();
    server.close();
  });
  return socket;
}

test("an answer that is not taken is broken off", async () => {
  const closed = Promise.withResolvers<boolean>();
  const socket = await serve((_request, response) => {
    response.once("close", () => closed.resolve(response.writableFinished));
    guardAnswer(response, 50, 10);
    response.end(Buffer.alloc(64 * 1024 * 1024));
  });
  socket.pause();
  socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  assert.equal(await closed.promise, false);
});

test("an answer whose large piece is taken slowly is left alone", async () => {
  const size = 64 * 1024 * 1024;
  const limitMs = 400;
  const closed = Promise.withResolvers<boolean>();
  const socket = await serve((_request, response) => {
    response.once("close", () => closed.resolve(response.writableFinished));
    guardAnswer(response, limitMs, 20);
    response.writeHead(200, { "content-length": size }).end(Buffer.alloc(size));
  });
  // A part of it now and then, for longer than a client may take nothing.
  let taken = 0;
  const begunAt = performance.now();
  socket.on("data", (bytes: Buffer) => {
    taken += bytes.length;
    const isSlow = performance.now() - begunAt < 4 * limitMs;
    if (!isSlow) return;
    socket.pause();
    setTimeout(() => socket.resume(), 2);
  });
  socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  assert.equal(await closed.promise, true);
  assert.ok(taken > 0);
});

test("an answer that has nothing to send for a while is left alone", async () => {
  const socket = await serve((_request, response) => {
    guardAnswer(response, 20, 5);
    response.write("first");
    setTimeout(() => response.end("last"), 200);
  });
  socket.write("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
  let text = "";
  socket.on("data", (data: Buffer) => {
    text += data.toString();
  });
  await once(socket, "end");
  assert.match(text, /first.*last/s);
});

test("a body that stops coming is noticed", async () => {
  const stalled = Promise.withResolvers<void>();
  const socket = await serve((request) => {
    request.resume();
    guardBody(request, stalled.resolve, 50, 10);
  });
  socket.write("PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nhalf");
  await stalled.promise;
});

test("a body that is not read because its reader is slow is left alone", async () => {
  const outcome = Promise.withResolvers<string>();
  const socket = await serve((request, response) => {
    request.on("data", () => undefined);
    request.pause();
    guardBody(request, () => outcome.resolve("stalled"), 20, 5);
    setTimeout(() => request.resume(), 200);
    request.once("end", () => {
      outcome.resolve("read");
      response.end();
    });
  });
  socket.write("PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nbody");
  assert.equal(await outcome.promise, "read");
});
