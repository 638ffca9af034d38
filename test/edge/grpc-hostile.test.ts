// Servers inside that answer gRPC calls with whatever breaks a client: the call ends, and the platform goes on.
import assert from "node:assert/strict";
import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, connect, type IncomingHttpHeaders } from "node:http2";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { after, afterEach, before, test } from "node:test";
import { eventually } from "../eventually.ts";
import { apiKey, HostHarness } from "../host/harness.ts";
import { endHeaders, endStream, fields, frame, frameType, number, settings } from "./http2-frames.ts";

let harness: HostHarness;
let session: ClientHttp2Session;
before(async () => {
  harness = await HostHarness.start();
  await harness.create("box");
  session = connect(harness.url);
});
after(async () => {
  session?.destroy();
  await harness[Symbol.asyncDispose]();
});

const servers: Server[] = [];
const sockets = new Set<Socket>();
afterEach(() => {
  for (const socket of sockets) socket.destroy();
  for (const server of servers.splice(0)) server.close();
});

async function serve(onRequest: (socket: Socket) => void): Promise<number> {
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).once("close", () => sockets.delete(socket));
    socket.once("data", () => onRequest(socket));
    socket.resume();
  });
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

function open(port: number): ClientHttp2Stream {
  const stream = session.request(
    {
      ":method": "POST",
      ":path": `/run/main/sandboxes/box/port/${port}/x`,
      authorization: `Bearer ${apiKey}`,
      "content-type": "application/grpc",
    },
    { endStream: false },
  );
  stream.on("error", () => undefined);
  return stream;
}

type Outcome = { status: unknown; text: string; grpcStatus: unknown; code: number };

async function call(port: number, body = "message"): Promise<Outcome> {
  const stream = open(port);
  const outcome: Outcome = { status: undefined, text: "", grpcStatus: undefined, code: 0 };
  stream.on("response", (head: IncomingHttpHeaders) => {
    outcome.status = head[":status"];
    outcome.grpcStatus = head["grpc-status"];
  });
  stream.on("trailers", (trailers: IncomingHttpHeaders) => {
    outcome.grpcStatus = trailers["grpc-status"];
  });
  stream.on("data", (chunk: Buffer) => {
    outcome.text += chunk;
  });
  stream.end(body);
  await new Promise((resolve, reject) => {
    stream.once("close", resolve);
    stream.setTimeout(60_000, () => reject(new Error("the call does not end")));
  });
  return { ...outcome, code: stream.rstCode };
}

async function assertGoesOn(): Promise<void> {
  assert.equal((await harness.ask("box", "GET", "/health")).status, 200);
}

const hello = settings();
const ok = fields([":status", "200"], ["content-type", "application/grpc"]);
const begun = frame(frameType.headers, endHeaders, 1, ok);
const done = frame(frameType.headers, endHeaders | endStream, 1, fields(["grpc-status", "0"]));
const message = frame(frameType.data, 0, 1, "hello");

test("what is right passes", async () => {
  const port = await serve((socket) => socket.write(Buffer.concat([hello, begun, message, done])));
  assert.deepEqual(await call(port), { status: 200, text: "hello", grpcStatus: "0", code: 0 });
});

/** Nothing of a good answer has come before. */
const refusals: [what: string, answer: Buffer][] = [
  ["HTTP/1", Buffer.from("HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")],
  ["noise", Buffer.alloc(4_096, 0xa5)],
  ["an answer before its settings", begun],
  ["a thousand settings", settings(...Array.from({ length: 1_000 }, (_, at): [number, number] => [at + 16, 1]))],
  ["settings of an impossible window", settings([4, 0xffff_ffff])],
  ["settings of an impossible size of frames", settings([5, 1])],
  ["ten thousand empty settings", Buffer.concat([hello, ...Array.from({ length: 10_000 }, () => settings([3, 1]))])],
  ["a hundred thousand pings", Buffer.concat(Array.from({ length: 100_000 }, () => frame(6, 0, 0, "12345678")))],
  ["a frame of another size than it may have", Buffer.concat([hello, frame(frameType.ping, 0, 0, "1")])],
  ["a frame that is too large", Buffer.concat([hello, frame(frameType.data, 0, 1, Buffer.alloc(1 << 20))])],
  ["a window that overflows", Buffer.concat([hello, frame(frameType.windowUpdate, 0, 0, number(0x7fff_ffff))])],
  ["a window of nothing", Buffer.concat([hello, frame(frameType.windowUpdate, 0, 0, number(0))])],
  ["data before headers", Buffer.concat([hello, message])],
  ["a reset", Buffer.concat([hello, frame(frameType.rstStream, 0, 1, number(8))])],
  ["a reset of a stream that never was", Buffer.concat([hello, frame(frameType.rstStream, 0, 9, number(0))])],
  ["a farewell", Buffer.concat([hello, frame(frameType.goaway, 0, 0, Buffer.concat([number(0), number(0)]))])],
  ["an angry farewell", Buffer.concat([hello, frame(frameType.goaway, 0, 0, Buffer.concat([number(1), number(11)]))])],
  ["a push", Buffer.concat([hello, frame(frameType.pushPromise, endHeaders, 1, Buffer.concat([number(2), ok]))])],
  [
    "headers that no table explains",
    Buffer.concat([hello, frame(frameType.headers, endHeaders, 1, "\xff\xff\xff\xff")]),
  ],
  ["no status", Buffer.concat([hello, frame(frameType.headers, endHeaders, 1, fields(["content-type", "x"]))])],
  ["two statuses", Buffer.concat([hello, frame(1, endHeaders, 1, fields([":status", "200"], [":status", "200"]))])],
  ["a status that is none", Buffer.concat([hello, frame(1, endHeaders | endStream, 1, fields([":status", "007"]))])],
  ["a status beyond all", Buffer.concat([hello, frame(1, endHeaders | endStream, 1, fields([":status", "999"]))])],
  ["a capital in a name", Buffer.concat([hello, frame(1, endHeaders, 1, Buffer.concat([ok, fields(["X", "a"])]))])],
  [
    "a header of a connection",
    Buffer.concat([hello, frame(1, endHeaders, 1, Buffer.concat([ok, fields(["connection", "x"])]))]),
  ],
  [
    "too many headers",
    Buffer.concat([hello, frame(1, endHeaders, 1, Buffer.concat([ok, fields(...Array(500).fill(["x", "y"]))]))]),
  ],
  [
    "headers without an end",
    Buffer.concat([
      hello,
      frame(frameType.headers, 0, 1, ok),
      ...Array.from({ length: 5_000 }, () => frame(frameType.continuation, 0, 1, fields(["x", "y".repeat(1_000)]))),
    ]),
  ],
];
for (const [what, answer] of refusals) {
  test(`${what} is 502`, async () => {
    const port = await serve((socket) => void socket.end(answer));
    const { status, text } = await call(port);
    assert.equal(status, 502, text);
    assert.match(JSON.parse(text).error, new RegExp(`port ${port}`));
    await assertGoesOn();
    await eventually(() => assert.equal(sockets.size, 0), { intervalMs: 10 });
  });
}

/** After the head of a good answer the call breaks off. */
const breaks: [what: string, rest: Buffer][] = [
  ["the end of the connection", Buffer.alloc(0)],
  ["a reset", frame(frameType.rstStream, 0, 1, number(2))],
  ["a cancellation", frame(frameType.rstStream, 0, 1, number(8))],
  ["a hundred thousand empty pieces", Buffer.concat(Array.from({ length: 100_000 }, () => frame(0, 0, 1)))],
  ["more than its window", Buffer.concat(Array.from({ length: 200 }, () => frame(0, 0, 1, Buffer.alloc(16_384))))],
  ["headers in the middle that do not end it", frame(frameType.headers, endHeaders, 1, fields(["grpc-status", "0"]))],
  ["trailers with a status of HTTP", frame(1, endHeaders | endStream, 1, fields([":status", "200"]))],
  ["an angry farewell", frame(frameType.goaway, 0, 0, Buffer.concat([number(1), number(2)]))],
];
for (const [what, rest] of breaks) {
  test(`${what} after the head of an answer is no end of it`, async () => {
    const port = await serve((socket) => void socket.end(Buffer.concat([hello, begun, message, rest])));
    const { status, grpcStatus, code } = await call(port);
    assert.deepEqual([status, grpcStatus], [200, undefined]);
    assert.notEqual(code, 0);
    await assertGoesOn();
  });
}

for (const [what, first] of [
  ["gives no window", settings([4, 0])],
  ["takes no streams", settings([3, 0])],
  ["says nothing", Buffer.alloc(0)],
] as const) {
  test(`a caller can leave a server that ${what}`, async () => {
    const port = await serve((socket) => socket.write(first));
    const stream = open(port);
    stream.write(Buffer.alloc(256 * 1024));
    await eventually(() => assert.equal(sockets.size, 1), { intervalMs: 10 });
    stream.close(8);
    await eventually(() => assert.equal(sockets.size, 0), { intervalMs: 10 });
    await assertGoesOn();
  });
}

test("a header with a line break goes no further", async () => {
  const head = Buffer.concat([ok, fields(["x-broken", "a\r\nx-planted: b"], ["x-whole", "c"])]);
  const port = await serve((socket) => socket.write(Buffer.concat([hello, frame(1, endHeaders, 1, head), done])));
  const stream = open(port);
  stream.end();
  const [answer] = (await once(stream, "response")) as [IncomingHttpHeaders];
  assert.deepEqual([answer["x-broken"], answer["x-planted"], answer["x-whole"]], [undefined, undefined, "c"]);
  stream.resume();
  await once(stream, "close");
});

test("a reset after the end takes nothing back", async () => {
  const port = await serve((socket) => {
    socket.write(Buffer.concat([hello, begun, message, done, frame(frameType.rstStream, 0, 1, number(8))]));
  });
  assert.deepEqual(await call(port), { status: 200, text: "hello", grpcStatus: "0", code: 0 });
});
