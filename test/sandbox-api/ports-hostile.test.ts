// Servers inside that lie about their answers, and callers whose requests two readers could take for different ones.
import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { after, afterEach, before, suite, test } from "node:test";
import { TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
const servers: Server[] = [];
before(async () => {
  sandbox = await TestSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

/** A server that answers every connection with these bytes; what it is sent stands in `received`. */
async function answerRaw(bytes: string): Promise<{ port: number; received: () => string }> {
  let received = "";
  const server = createServer((socket) => {
    socket.on("error", () => undefined).once("data", () => socket.end(bytes, "latin1"));
    socket.on("data", (piece) => {
      received += piece.toString("latin1");
    });
  });
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { port: (server.address() as AddressInfo).port, received: () => received };
}

/** Everything that comes back on a connection of its own, until it is closed. */
async function raw(bytes: string): Promise<string> {
  const socket = connect(sandbox.port, "127.0.0.1");
  let received = "";
  socket
    .on("error", () => undefined)
    .on("data", (piece) => {
      received += piece.toString("latin1");
    });
  socket.write(bytes, "latin1");
  await new Promise((resolve) => socket.once("close", resolve));
  return received;
}

const ask = (port: number, rest = "/", ...lines: string[]): string =>
  [`GET /port/${port}${rest} HTTP/1.1`, "host: x", "connection: close", ...lines]
    .map((line) => `${line}\r\n`)
    .join("")
    .concat("\r\n");

suite("answers", () => {
  const refused: [what: string, bytes: string][] = [
    ["a status of 99", "HTTP/1.1 099 Low\r\ncontent-length: 0\r\n\r\n"],
    ["a status of 600", "HTTP/1.1 600 High\r\ncontent-length: 0\r\n\r\n"],
    ["a status of four digits", "HTTP/1.1 2000 Long\r\ncontent-length: 0\r\n\r\n"],
    ["an unasked 101 without an upgrade", "HTTP/1.1 101 Go\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"],
    ["announcements without an end", `${"HTTP/1.1 100 Continue\r\n\r\n".repeat(5_000)}HTTP/1.1 200 OK\r\n\r\n`],
    ["another transfer coding", "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"],
    ["a negative length", "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nx"],
    ["a length with a sign", "HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\nx"],
    ["a bare carriage return in a header", "HTTP/1.1 200 OK\r\nx: a\rset-cookie: b\r\ncontent-length: 0\r\n\r\n"],
    ["a null in a header", "HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 0\r\n\r\n"],
    ["201 headers", `HTTP/1.1 200 OK\r\n${Array.from({ length: 201 }, (_, at) => `x-${at}: y\r\n`).join("")}\r\n`],
  ];
  for (const [what, bytes] of refused) {
    test(`${what} is 502`, async () => {
      const { port } = await answerRaw(bytes);
      assert.match(await raw(ask(port)), /^HTTP\/1\.1 502 /);
    });
  }

  test("what comes behind an answer's end is never passed on", async () => {
    const evil = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";
    for (const head of [
      "HTTP/1.1 204 None\r\ncontent-length: 44\r\n\r\n",
      "HTTP/1.1 304 Same\r\ncontent-length: 44\r\n\r\n",
      "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ]) {
      const { port } = await answerRaw(head + evil);
      const received = await raw(ask(port));
      assert.equal(received.slice(0, 12), head.slice(0, 12));
      assert.doesNotMatch(received, /evil/);
      if (head.includes(" 204 ")) assert.doesNotMatch(received, /content-length/i);
    }
  });

  test("a chunk that is malformed, or never ends, breaks the answer off", async () => {
    for (const chunk of ["zz\r\nab\r\n0\r\n\r\n", "5\r\nab", `2;${"x".repeat(100_000)}\r\nab\r\n0\r\n\r\n`]) {
      const { port } = await answerRaw(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n${chunk}`);
      const received = await raw(ask(port));
      assert.doesNotMatch(received, /\r\n0\r\n\r\n$/);
    }
  });

  test("early hints are passed on a few times only", async () => {
    const hint = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n";
    const { port } = await answerRaw(`${hint.repeat(60)}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok`);
    const received = await raw(ask(port));
    assert.equal(received.match(/ 103 /g)?.length, 8);
    assert.match(received, /HTTP\/1\.1 200 [\s\S]*ok$/);
  });
});

suite("targets", () => {
  for (const rest of [
    "/..",
    "/../../etc",
    "/%2e%2e/",
    "/a;b=c",
    "//x//y",
    "/%2F",
    "/%00",
    "/%0d%0aX:%20y",
    "/a%20b",
    "/\\x",
  ]) {
    test(`${rest} arrives as it is, below the one port`, async () => {
      const { port, received } = await answerRaw("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
      assert.match(await raw(ask(port, rest)), /^HTTP\/1\.1 200 /);
      assert.equal(received().split("\r\n")[0], `GET ${rest} HTTP/1.1`);
    });
  }
});

suite("requests", () => {
  test("another transfer coding than chunked is refused, and reaches nobody", async () => {
    const { port, received } = await answerRaw("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    const answer = await raw(`${ask(port, "/", "transfer-encoding: gzip, chunked")}0\r\n\r\n`);
    assert.match(answer, /^HTTP\/1\.1 501 /);
    assert.equal(received(), "");
  });

  test("extensions of chunks are taken off, and a body that looks like a request is a body", async () => {
    const { port, received } = await answerRaw("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    const hidden = "GET /smuggled HTTP/1.1\r\n\r\n";
    await raw(
      `${ask(port, "/", "transfer-encoding: chunked")}${hidden.length.toString(16)};a=b\r\n${hidden}\r\n0\r\n\r\n`,
    );
    assert.match(received(), /^GET \/ HTTP\/1\.1\r\n/);
    assert.doesNotMatch(received(), /a=b/);
  });
});
