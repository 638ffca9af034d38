// gRPC to servers inside, which speak HTTP/2 alone: calls, streams both ways, cancellation, statuses in trailers or in headers alone.
import assert from "node:assert/strict";
import { once } from "node:events";
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { eventually } from "../eventually.ts";
import { apiKey, HostHarness } from "../host/harness.ts";

let harness: HostHarness;
let session: ClientHttp2Session;
let server: Http2Server;
let port = 0;
const sessions = new Set<ServerHttp2Session>();
/** Codes with which calls to `/forever` ended. */
const cancelled: number[] = [];
let gate = Promise.withResolvers<void>();

const contentType = { "content-type": "application/grpc+proto" };

const methods: Record<string, (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => void> = {
  "/echo": (stream) => {
    stream.respond(contentType, { waitForTrailers: true });
    stream.once("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0", "x-list": "a, b" }));
    stream.pipe(stream);
  },
  "/headers": (stream, headers) => {
    stream.respond(contentType, { waitForTrailers: true });
    stream.once("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
    stream.resume().once("end", () => stream.end(JSON.stringify(headers)));
  },
  "/nothing": (stream) => {
    stream.respond({ ...contentType, "grpc-status": "12", "grpc-message": "no such method" }, { endStream: true });
  },
  "/early": (stream) => {
    stream.respond(contentType, { waitForTrailers: true });
    stream.once("wantTrailers", () => stream.sendTrailers({ "grpc-status": "8" }));
    stream.end("enough");
  },
  "/forever": (stream) => {
    stream.respond(contentType);
    stream.write("begun");
    stream.resume().once("end", () => stream.rstCode === 0 && cancelled.push(-1));
    stream.once("close", () => cancelled.push(stream.rstCode));
  },
  "/reset": (stream) => {
    stream.respond(contentType, { waitForTrailers: true });
    stream.write("begun", () => stream.close(constants.NGHTTP2_INTERNAL_ERROR));
  },
  "/slow": (stream) => {
    stream.respond(contentType);
    void gate.promise.then(() => stream.resume().once("end", () => stream.end("read")));
  },
};

before(async () => {
  harness = await HostHarness.start({ idleTimeoutMs: 100 });
  await harness.create("box");
  server = createServer({ settings: { initialWindowSize: 64 * 1024 } });
  server.on("session", (each) => {
    sessions.add(each);
    each.once("close", () => sessions.delete(each));
    each.on("error", () => undefined);
  });
  server.on("stream", (stream, headers) => {
    stream.on("error", () => undefined);
    methods[headers[":path"]!]!(stream, headers);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  ({ port } = server.address() as AddressInfo);
  session = connect(harness.url, { maxSessionMemory: 100 });
});
after(async () => {
  session?.destroy();
  for (const each of sessions) each.destroy();
  server?.close();
  await harness[Symbol.asyncDispose]();
});

function open(method: string, headers: OutgoingHttpHeaders = {}): ClientHttp2Stream {
  const stream = session.request(
    {
      ":method": "POST",
      ":path": `/run/main/sandboxes/box/port/${port}${method}`,
      authorization: `Bearer ${apiKey}`,
      "content-type": "application/grpc",
      te: "trailers",
      ...headers,
    },
    { endStream: false },
  );
  stream.on("error", () => undefined);
  return stream;
}

type Call = { head: IncomingHttpHeaders; isWhole: boolean; content: Buffer; trailers: IncomingHttpHeaders };

async function finish(stream: ClientHttp2Stream): Promise<Call> {
  const answered = once(stream, "response");
  let trailers: IncomingHttpHeaders = {};
  stream.once("trailers", (sent: IncomingHttpHeaders) => {
    trailers = sent;
  });
  const [head, flags] = (await answered) as [IncomingHttpHeaders, number];
  const isWhole = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
  const chunks: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  await once(stream, "close");
  return { head, isWhole, content: Buffer.concat(chunks), trailers };
}

function call(method: string, body = "", headers: OutgoingHttpHeaders = {}): Promise<Call> {
  const stream = open(method, headers);
  stream.end(body);
  return finish(stream);
}

test("a call reaches its server, and its status comes back in the trailers", async () => {
  const { head, content, trailers } = await call("/echo", "hello");
  assert.deepEqual([head[":status"], head["content-type"], String(content)], [200, "application/grpc+proto", "hello"]);
  assert.deepEqual([trailers["grpc-status"], trailers["x-list"]], ["0", "a, b"]);
  assert.match(String(head["server-timing"]), /proxy;dur=/);
});

test("the server learns who called and no credential of the platform", async () => {
  const sent = {
    ":authority": "my.example",
    "grpc-timeout": "5S",
    "x-blaxel-workspace": "main",
    "x-own-bin": "AAEC",
    "x-forwarded-for": "1.2.3.4",
  };
  const received = JSON.parse(String((await call("/headers", "x", sent)).content)) as IncomingHttpHeaders;
  assert.deepEqual(
    [received[":method"], received[":path"], received[":authority"], received.te, received["grpc-timeout"]],
    ["POST", "/headers", "my.example", "trailers", "5S"],
  );
  assert.equal(received["x-own-bin"], "AAEC");
  assert.match(String(received["x-forwarded-for"]), /127\.0\.0\.1$/);
  assert.deepEqual(
    [received.authorization, received["x-blaxel-workspace"], received.connection],
    Array(3).fill(undefined),
  );
  const foreign = { authorization: "Bearer theirs", "x-blaxel-authorization": `Bearer ${apiKey}` };
  const own = JSON.parse(String((await call("/headers", "x", foreign)).content)) as IncomingHttpHeaders;
  assert.deepEqual([own.authorization, own["x-blaxel-authorization"]], ["Bearer theirs", undefined]);
});

test("an answer of nothing but headers stays one", async () => {
  const { head, isWhole, content } = await call("/nothing", "x");
  assert.deepEqual([head["grpc-status"], head["grpc-message"], isWhole], ["12", "no such method", true]);
  assert.equal(content.length, 0);
});

test("messages pass both ways at once, and the caller's end is told", async () => {
  const stream = open("/echo");
  const [head] = (await once(stream, "response")) as [IncomingHttpHeaders];
  assert.equal(head[":status"], 200);
  for (const message of ["one", "two", "three"]) {
    stream.write(message);
    assert.equal(String(await once(stream, "data")), message);
  }
  const trailers = once(stream, "trailers") as Promise<[IncomingHttpHeaders]>;
  stream.end();
  assert.equal((await trailers)[0]["grpc-status"], "0");
});

test("a server that has answered before the caller has ended is heard", async () => {
  const stream = open("/early");
  stream.write("a message");
  stream.once("trailers", () => stream.end());
  const { content, trailers } = await finish(stream);
  assert.deepEqual([String(content), trailers["grpc-status"]], ["enough", "8"]);
});

test("what the caller cancels is cancelled inside, and its connection closed", async () => {
  const stream = open("/forever");
  assert.equal(String(await once(stream, "data")), "begun");
  stream.close(constants.NGHTTP2_CANCEL);
  await eventually(() => assert.deepEqual(cancelled, [constants.NGHTTP2_CANCEL]), { intervalMs: 10 });
  await eventually(() => assert.equal(sessions.size, 0), { intervalMs: 10 });
});

test("a call that its server breaks off does not look like a whole one", async () => {
  const stream = open("/reset");
  stream.end();
  stream.resume();
  await once(stream, "close").catch(() => undefined);
  assert.notEqual(stream.rstCode, constants.NGHTTP2_NO_ERROR);
});

test("16 MiB pass unchanged, both ways, ten times at once", async () => {
  const big = Buffer.alloc(1 << 24, "0123456789abcdef");
  const answers = await Promise.all(Array.from({ length: 10 }, () => finishBig(big.subarray(0, 1 << 21))));
  assert.ok(answers.every(({ content }) => content.equals(big.subarray(0, 1 << 21))));
  assert.ok((await finishBig(big)).content.equals(big));
});

async function finishBig(body: Buffer): Promise<Call> {
  const stream = open("/echo");
  const finished = finish(stream);
  stream.end(body);
  return finished;
}

test("a server that does not read slows its caller down, and nothing is kept in between", async () => {
  const stream = open("/slow");
  let written = 0;
  const piece = Buffer.alloc(64 * 1024);
  const writeOn = (): void => {
    while (written < 64 * 1024 * 1024 && stream.write(piece)) written += piece.length;
  };
  stream.on("drain", writeOn);
  await once(stream, "response");
  writeOn();
  let before = -1;
  await eventually(
    () => {
      const now = written;
      const stood = now === before;
      before = now;
      assert.ok(stood);
    },
    { intervalMs: 200 },
  );
  assert.ok(written < 8 * 1024 * 1024, `${written} bytes were taken`);
  stream.off("drain", writeOn);
  gate.resolve();
  stream.end();
  assert.equal(String(Buffer.concat(await stream.toArray())), "read");
  gate = Promise.withResolvers();
});

test("nobody there, and somebody who speaks something else, is 502", async () => {
  const stream = session.request({
    ":method": "POST",
    ":path": "/run/main/sandboxes/box/port/1/x",
    authorization: `Bearer ${apiKey}`,
    "content-type": "application/grpc",
  });
  const { head, content } = await finish(stream);
  assert.equal(head[":status"], 502);
  assert.match(JSON.parse(String(content)).error, /port 1/);
});

test("a silent call lets its sandbox sleep, and a message wakes it", async () => {
  const stream = open("/echo");
  await once(stream, "response");
  await eventually(() => assert.equal(harness.status("box").state, "STANDBY"), { intervalMs: 10 });
  stream.write("wake up");
  assert.equal(String(await once(stream, "data")), "wake up");
  stream.end();
  stream.resume();
  await once(stream, "close");
});
