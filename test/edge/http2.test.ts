// HTTP/2 on the one listener: callers that know it are served like all others, and cannot do more harm than them.
import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { type ClientHttp2Session, connect, constants, type OutgoingHttpHeaders } from "node:http2";
import { connect as connectSocket } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { eventually } from "../eventually.ts";
import { apiKey, HostHarness } from "../host/harness.ts";

const serverSource = `
import { createServer } from "node:http";
createServer((request, response) => {
  if (request.url === "/hints") {
    response.writeEarlyHints({ link: "</style.css>; rel=preload; as=style" });
    return setTimeout(() => response.end("after"), 50);
  }
  if (request.url === "/trailers") {
    response.writeHead(200, { trailer: "x-sum", "set-cookie": ["a=1", "b=2"] });
    response.write("body");
    response.addTrailers({ "x-sum": "42" });
    return response.end();
  }
  if (request.url === "/short") { response.writeHead(200, { "content-length": 100 }); response.write("x"); return setTimeout(() => response.destroy(), 50); }
  if (request.url === "/odd") { response.writeHead(799); return response.end("odd"); }
  if (request.url === "/events") return response.write("hello\\n");
  response.writeHead(200, { "x-method": request.method, "x-host": request.headers.host, "x-cookie": request.headers.cookie ?? "" });
  request.pipe(response);
}).listen(0, "127.0.0.1", function () { console.log("port " + this.address().port); });
`;

let harness: HostHarness;
let session: ClientHttp2Session;
let port = 0;

before(async () => {
  harness = await HostHarness.start({ idleTimeoutMs: 50 });
  await harness.create("modern");
  const script = join(harness.dataDir, "server.mjs");
  writeFileSync(script, serverSource);
  await harness.call("modern", "POST", "/process", { name: "server", command: `${process.execPath} ${script}` });
  await eventually(async () => {
    port = Number(/port (\d+)/.exec(String((await harness.call("modern", "GET", "/process/server")).logs))?.[1]);
    assert.ok(port > 0);
  });
  session = connect(harness.url, { maxSessionMemory: 100 });
});
after(async () => {
  session?.destroy();
  await harness[Symbol.asyncDispose]();
});

function open(path: string, headers: OutgoingHttpHeaders = {}, on = session) {
  const sent = { ":path": `/run/main/sandboxes/modern${path}`, authorization: `Bearer ${apiKey}`, ...headers };
  return on.request(sent, { endStream: false });
}

async function ask(
  path: string,
  {
    headers = {},
    body,
    on = session,
  }: { headers?: OutgoingHttpHeaders; body?: string | Buffer; on?: ClientHttp2Session } = {},
) {
  const stream = open(path, headers, on);
  const answered = once(stream, "response");
  let trailers: Record<string, unknown> = {};
  stream.on("trailers", (sent) => {
    trailers = sent;
  });
  stream.end(body);
  const [head] = (await answered) as [Record<string, unknown>];
  const content = Buffer.concat(await stream.toArray());
  return { status: head[":status"], head, content, text: content.toString(), trailers };
}

test("the sandbox API answers, and refuses, over HTTP/2", async () => {
  const health = await ask("/health");
  assert.deepEqual([health.status, JSON.parse(health.text).status], [200, "ok"]);
  assert.match(String(health.head["server-timing"]), /total;dur=/);
  const command = { command: "echo hi", waitForCompletion: true };
  const headers = { ":method": "POST", "content-type": "application/json" };
  const ran = await ask("/process", { headers, body: JSON.stringify(command) });
  assert.equal(JSON.parse(ran.text).stdout, "hi\n");
  assert.equal((await ask("/health", { headers: { authorization: "Bearer wrong" } })).status, 401);
  assert.equal((await ask("/nothing")).status, 404);
});

for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "PROPFIND", "REPORT", "OPTIONS"]) {
  test(`${method} reaches a server inside with its body, Host and cookies`, async () => {
    const body = method === "GET" ? "" : "some body";
    const headers = { ":method": method, ":authority": "my.example", cookie: ["a=1", "b=2"].join("; ") };
    const answer = await ask(`/port/${port}/`, { headers, body });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(
      [answer.head["x-method"], answer.head["x-host"], answer.head["x-cookie"], answer.text],
      [method, "my.example", "a=1; b=2", body],
    );
  });
}

test("16 MiB pass unchanged both ways while fifty other streams are served", async () => {
  const big = Buffer.alloc(16 << 20, "0123456789abcdef");
  const passing = ask(`/port/${port}/`, { headers: { ":method": "POST" }, body: big });
  const others = await Promise.all(Array.from({ length: 50 }, () => ask("/health")));
  assert.ok(others.every(({ status }) => status === 200));
  assert.ok((await passing).content.equals(big));
});

test("trailers, cookies, early hints and 100 (Continue) pass", async () => {
  const trailing = await ask(`/port/${port}/trailers`);
  assert.deepEqual(
    [trailing.text, trailing.trailers["x-sum"], trailing.head["set-cookie"]],
    ["body", "42", ["a=1", "b=2"]],
  );
  const hinted = open(`/port/${port}/hints`);
  hinted.end();
  const [hints] = (await once(hinted, "headers")) as [Record<string, unknown>];
  assert.deepEqual([hints[":status"], hints.link], [103, "</style.css>; rel=preload; as=style"]);
  assert.equal(String(await hinted.toArray()), "after");
  const expecting = open(`/port/${port}/`, { ":method": "POST", expect: "100-continue" });
  await once(expecting, "continue");
  expecting.end("now");
  assert.equal(String(await expecting.toArray()), "now");
});

test("a status that HTTP/2 does not know is 502, and the platform goes on", async () => {
  assert.equal((await ask(`/port/${port}/odd`)).status, 502);
  assert.equal((await ask(`/port/${port}/`)).status, 200);
});

test("an answer that stops short ends in an error, not in an end", async () => {
  const stream = open(`/port/${port}/short`);
  stream.end();
  stream.resume();
  const [error] = (await once(stream, "error")) as [Error];
  assert.match(error.message, /NGHTTP2_INTERNAL_ERROR|closed/);
});

test("a silent stream lets the sandbox sleep, pings included, and ends when its caller leaves", async () => {
  const stream = open(`/port/${port}/events`);
  stream.end();
  await once(stream, "data");
  const pinging = setInterval(() => session.ping(() => undefined), 20);
  await eventually(() => assert.equal(harness.status("modern").state, "STANDBY"));
  clearInterval(pinging);
  stream.close(constants.NGHTTP2_CANCEL);
  await once(stream, "close");
  assert.equal((await ask("/health")).status, 200);
});

test("streams reset as fast as they come end the session, and nobody else notices", async () => {
  const abuser = connect(harness.url);
  abuser.on("error", () => undefined);
  const ended = new Promise((resolve) => abuser.once("close", resolve));
  for (let round = 0; round < 100 && !abuser.destroyed; round++) {
    for (let number = 0; number < 90 && !abuser.destroyed; number++) {
      const stream = open("/health", {}, abuser);
      stream.on("error", () => undefined);
      stream.close(constants.NGHTTP2_CANCEL);
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  await ended;
  assert.equal((await ask("/health")).status, 200);
});

test("a head that is too large ends its stream alone", async () => {
  const stream = open("/health", { "x-large": "x".repeat(60_000) });
  await assert.rejects(once(stream, "response"));
  assert.equal((await ask("/health")).status, 200);
});

test("a preface that comes in pieces is one, and what only looks like one is HTTP/1", async () => {
  const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  const pieces = connectSocket(harness.port, "127.0.0.1");
  for (const byte of preface) {
    pieces.write(Buffer.from([byte]));
    await new Promise((resolve) => setImmediate(resolve));
  }
  pieces.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]));
  const [settings] = (await once(pieces, "data")) as [Buffer];
  assert.equal(settings[3], 4, "it answers with its settings");
  pieces.destroy();
  const other = connectSocket(harness.port, "127.0.0.1");
  other.write("PRI * HTTP/1.1\r\nhost: x\r\n\r\n");
  assert.match(String(await once(other, "data")), /^HTTP\/1\.1 400/);
  other.destroy();
});
