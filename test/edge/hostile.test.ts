// Requests made to be read in two ways, or never to end: refused or served the one way, with bounds on what they hold.
import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import { eventually } from "../eventually.ts";
import { auth, parseAnswer, startEdge, type TestEdge } from "./harness.ts";

let edge: TestEdge;
before(async () => {
  edge = await startEdge({ lateBodyMs: 200 });
});
after(() => edge[Symbol.asyncDispose]());

const post = (...lines: string[]): string =>
  ["POST /run/main/sandboxes/box/x HTTP/1.1", "host: x", auth, ...lines].map((line) => `${line}\r\n`).join("");
const smuggled = "GET /run/main/sandboxes/box/smuggled HTTP/1.1\r\nhost: x\r\n\r\n";

/** Complete requests whose length or headers two readers could understand differently; what follows them must not become a request. */
const ambiguous: [what: string, sent: string][] = [
  ["both a length and chunks", `${post("content-length: 4", "transfer-encoding: chunked")}\r\n0\r\n\r\n${smuggled}`],
  ["chunks and then a length", `${post("transfer-encoding: chunked", "content-length: 4")}\r\n0\r\n\r\n${smuggled}`],
  ["two lengths", `${post("content-length: 0", "content-length: 44")}\r\n${smuggled}`],
  ["two lengths in one", `${post("content-length: 0, 44")}\r\n${smuggled}`],
  ["a length with a sign", `${post("content-length: +4")}\r\nabcd${smuggled}`],
  ["a negative length", `${post("content-length: -1")}\r\n${smuggled}`],
  ["a length in hexadecimal", `${post("content-length: 0x4")}\r\nabcd${smuggled}`],
  ["a length beyond all numbers", `${post(`content-length: ${"9".repeat(40)}`)}\r\n${smuggled}`],
  ["a space before the colon", `${post("content-length : 4")}\r\nabcd${smuggled}`],
  ["a folded header", `${post("transfer-encoding:", " chunked")}\r\n0\r\n\r\n${smuggled}`],
  ["chunks under another name", `${post("transfer-encoding: xchunked")}\r\n0\r\n\r\n${smuggled}`],
  ["chunks that are not last", `${post("transfer-encoding: chunked, identity")}\r\n0\r\n\r\n${smuggled}`],
  [
    "two transfer encodings",
    `${post("transfer-encoding: chunked", "transfer-encoding: identity")}\r\n0\r\n\r\n${smuggled}`,
  ],
  ["a vertical tab in the encoding", `${post("transfer-encoding: \x0bchunked")}\r\n0\r\n\r\n${smuggled}`],
  ["a bare carriage return", `${post("x: a\rtransfer-encoding: chunked")}\r\n0\r\n\r\n${smuggled}`],
  ["a null in a header", `${post("x: a\0b")}\r\n${smuggled}`],
  ["a bad size of a chunk", `${post("transfer-encoding: chunked")}\r\nZZ\r\n\r\n${smuggled}`],
  ["a chunk longer than its size", `${post("transfer-encoding: chunked")}\r\n1\r\nabc\r\n0\r\n\r\n${smuggled}`],
  ["two Host headers", `${post("host: y")}\r\n${smuggled}`],
  ["no Host header", `POST /run/main/sandboxes/box/x HTTP/1.1\r\n${auth}\r\n\r\n${smuggled}`],
  ["a space in the target", `GET /run/main/sandboxes/box/ x HTTP/1.1\r\nhost: x\r\n\r\n${smuggled}`],
  ["another version", `GET /run/main/sandboxes/box/x HTTP/3.0\r\nhost: x\r\n\r\n${smuggled}`],
  ["an unknown method", `FROB /run/main/sandboxes/box/x HTTP/1.1\r\nhost: x\r\n\r\n${smuggled}`],
  ["headers beyond all bounds", `${post(`x: ${"x".repeat(100_000)}`)}\r\n${smuggled}`],
];

for (const [what, sent] of ambiguous) {
  test(`a request with ${what} is refused, and what follows it is no request`, async () => {
    const before = edge.arrivals.length;
    const received = await edge.raw(sent);
    const answer = parseAnswer(received);
    assert.ok(received === "" || (answer.status >= 400 && answer.status < 500), received.slice(0, 200));
    if (received !== "") assert.match(answer.headers["server-timing"] ?? "", /total;dur=/);
    assert.equal(received.match(/HTTP\/1\.1/g)?.length ?? 0, received === "" ? 0 : 1, "one answer at most");
    // The head of one whose body turns out to be wrong has reached the sandbox by then, and no more.
    assert.ok(edge.arrivals.slice(before).every(({ url, body }) => url === "/x" && !body.includes("GET")));
  });
}

test("chunk extensions and trailers change nothing", async () => {
  const received = await edge.raw(
    `${post("transfer-encoding: chunked", "connection: close", "trailer: x")}\r\n3;a=b\r\nabc\r\n0;c\r\nauthorization: y\r\n\r\n`,
  );
  assert.equal(parseAnswer(received).status, 200);
  const { body, rawHeaders } = edge.arrivals.at(-1)!;
  assert.equal(body, "abc");
  assert.ok(!rawHeaders.some((name) => name.toLowerCase() === "authorization"));
});

test("a client that expects to be told to go on is, unless it is refused, and what else it expects is ignored", async () => {
  const expecting = post("expect: 100-continue", "content-length: 4", "connection: close");
  const asked = connect(edge.port, "127.0.0.1").on("error", () => undefined);
  let answered = "";
  asked.on("data", (piece) => {
    answered += piece.toString();
    if (answered.endsWith("100 Continue\r\n\r\n")) asked.write("abcd");
  });
  asked.write(`${expecting}\r\n`);
  await new Promise((resolve) => asked.once("close", resolve));
  assert.match(answered, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200/);
  assert.equal(edge.arrivals.at(-1)?.body, "abcd");
  const refused = await edge.raw(`${expecting.replace("Bearer ", "Bearer x")}\r\n`);
  assert.match(refused, /^HTTP\/1\.1 401 /);
  assert.doesNotMatch(refused, /100 Continue/);
  const together = await edge.raw(`${expecting}\r\nabcd`);
  assert.match(together, /HTTP\/1\.1 200 /);
  const strange = parseAnswer(
    await edge.raw(`${post("expect: miracles", "content-length: 0", "connection: close")}\r\n`),
  );
  assert.equal(strange.status, 200);
  assert.match(strange.headers["server-timing"] ?? "", /total;dur=/);
});

test("requests that come before the answers to earlier ones are answered in order", async () => {
  const get = (path: string): string => `GET /run/main/sandboxes/${path} HTTP/1.1\r\nhost: x\r\n${auth}\r\n\r\n`;
  const received = await edge.raw(get("box/1") + get("none/2") + get("box/3"), /from box.*from box/s);
  assert.deepEqual(received.match(/HTTP\/1\.1 \d+/g), ["HTTP/1.1 200", "HTTP/1.1 404", "HTTP/1.1 200"]);
});

test("an offer of another protocol is declined by an answer", async () => {
  for (const protocol of ["h2c", "websocket2", "TLS/1.0"]) {
    const offer = [`upgrade: ${protocol}`, "connection: upgrade, http2-settings, close", "http2-settings: AAMAAABkAAQ"];
    const received = await edge.raw(`${post(...offer, "content-length: 4")}\r\nabcd`);
    assert.equal(parseAnswer(received).status, 200);
    assert.equal(edge.arrivals.at(-1)?.body, "abcd");
  }
});

test("an upgrade behind a request that is not answered yet ends the connection", async () => {
  await using slow = await startEdge();
  const upgrade = `GET /run/main/sandboxes/box/ws HTTP/1.1\r\nhost: x\r\n${auth}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n`;
  // The host answers once the event loop has turned: the upgrade arrives before that.
  const received = await slow.raw(`${post("content-length: 1")}\r\nx${upgrade}`);
  assert.equal(received.match(/101 Switching/), null);
  assert.deepEqual(
    slow.arrivals.map(({ url }) => url),
    ["/x"],
  );
});

test("a head that does not end is refused in time", async () => {
  await using impatient = await startEdge({ headersTimeoutMs: 400 });
  const received = await impatient.raw(`GET /run/main/sandboxes/box/x HTTP/1.1\r\nhost: x\r\nx: `);
  const answer = parseAnswer(received);
  assert.equal(answer.status, 408);
  assert.match(answer.headers["server-timing"] ?? "", /total;dur=/);
});

test("the rest of a body that was refused is not read for ever", async () => {
  const socket = connect(edge.port, "127.0.0.1");
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  socket.on("error", () => undefined);
  let received = "";
  socket.on("data", (piece) => {
    received += piece.toString();
  });
  socket.write("POST /run/main/sandboxes/box/x HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n");
  const drip = setInterval(() => socket.write("x"), 20);
  try {
    await eventually(() => assert.match(received, /^HTTP\/1\.1 401 /));
    await closed;
  } finally {
    clearInterval(drip);
    socket.destroy();
  }
});

test("bytes that are no request, inside an answer that has begun, end the connection without a second answer", async () => {
  await using slow = await startEdge();
  const socket = connect(slow.port, "127.0.0.1");
  socket.on("error", () => undefined);
  let received = "";
  socket.on("data", (piece) => {
    received += piece.toString();
  });
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  // The body is still being read when the rubbish comes: the answer is owed.
  socket.write(`${post("transfer-encoding: chunked")}\r\n3\r\nabc\r\n`);
  await eventually(() => assert.equal(slow.arrivals.at(-1)?.body, "abc"));
  socket.write("rubbish\r\n\r\n");
  await closed;
  assert.equal(received, "");
});

test("a refused upgrade is not kept by a caller who never closes", async () => {
  await using short = await startEdge({ connectionsMax: 1 });
  const upgrade =
    "GET /run/main/sandboxes/box/ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
  const holder = connect({ port: short.port, host: "127.0.0.1", allowHalfOpen: true }).on("error", () => undefined);
  try {
    let received = "";
    holder.on("data", (piece) => {
      received += piece.toString();
    });
    holder.write(upgrade);
    await eventually(() => assert.match(received, /^HTTP\/1\.1 401 /));
    await eventually(async () => assert.match(await short.raw(upgrade), /^HTTP\/1\.1 401 /), { intervalMs: 500 });
  } finally {
    holder.destroy();
  }
});
