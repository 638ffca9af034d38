// HTTP/2 that is made to become two requests of HTTP/1, or one for somebody else, or never to end; and how much one caller can hold.
import assert from "node:assert/strict";
import { once } from "node:events";
import { type ClientHttp2Session, connect, constants, type IncomingHttpHeaders } from "node:http2";
import { connect as connectSocket, type Socket } from "node:net";
import { after, afterEach, before, test } from "node:test";
import { eventually } from "../eventually.ts";
import { apiKey, startEdge, type TestEdge, type TestEdgeOptions } from "./harness.ts";
import { endHeaders, endStream, fields, frame, frameType, number, preface, settings } from "./http2-frames.ts";

let edge: TestEdge;
before(async () => {
  edge = await startEdge();
});
after(() => edge[Symbol.asyncDispose]());
const opened: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close();
});

type Pair = [name: string, value: string];
const path = "/run/main/sandboxes/box/x";
const head = (...more: Pair[]): Pair[] => {
  const usual: Pair[] = [
    [":method", "POST"],
    [":scheme", "http"],
    [":path", path],
    [":authority", "x"],
  ];
  const named = new Set(more.map(([name]) => name));
  const pseudo = more.filter(([name]) => name.startsWith(":"));
  const rest = more.filter(([name]) => !name.startsWith(":"));
  return [...usual.filter(([name]) => !named.has(name)), ...pseudo, ["authorization", `Bearer ${apiKey}`], ...rest];
};

type Conversation = { types: number[]; status: string; isTooLate: boolean };

/** Writes frames after the preface; resolves with the types of the frames that come until the first of these or the end. */
async function converse(frames: Buffer[], until: number[], on = edge): Promise<Conversation> {
  const socket: Socket = connectSocket(on.port, "127.0.0.1");
  opened.push(() => socket.destroy());
  socket.on("error", () => undefined);
  let isTooLate = false;
  socket.setTimeout(60_000, () => {
    isTooLate = true;
    socket.destroy();
  });
  socket.write(Buffer.concat([preface, settings(), ...frames]));
  let received = Buffer.alloc(0);
  const types: number[] = [];
  let status = "";
  const enough = Promise.withResolvers<void>();
  socket.on("data", (bytes: Buffer) => {
    received = Buffer.concat([received, bytes]);
    while (received.length >= 9 && received.length >= 9 + received.readUIntBE(0, 3)) {
      const payload = received.subarray(9, 9 + received.readUIntBE(0, 3));
      types.push(received[3]!);
      // The first field of an answer is its status: from the static table, or a literal behind its index.
      if (received[3] === frameType.headers && status === "") status = statusOf(payload);
      if (until.includes(received[3]!)) enough.resolve();
      received = received.subarray(9 + payload.length);
    }
  });
  await Promise.race([enough.promise, once(socket, "close")]);
  socket.destroy();
  return { types, status, isTooLate };
}

function statusOf(payload: Buffer): string {
  const indexed: Record<number, string> = { 136: "200", 137: "204", 140: "400", 141: "404", 142: "500" };
  return indexed[payload[0]!] ?? "other";
}

const ends = [frameType.headers, frameType.rstStream, frameType.goaway];

/** The frames of one request each: whatever is answered, nothing that was hidden in it may arrive. */
const smuggled = "GET /run/main/sandboxes/box/smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
const request = (pairs: Pair[], body?: string): Buffer[] => [
  frame(frameType.headers, body === undefined ? endHeaders | endStream : endHeaders, 1, fields(...pairs)),
  ...(body === undefined ? [] : [frame(frameType.data, endStream, 1, body)]),
];
const attacks: [what: string, frames: Buffer[]][] = [
  ["a line break in the path", request(head([":path", `${path} HTTP/1.1\r\nhost: x\r\n\r\n${smuggled}`]))],
  ["a space in the path", request(head([":path", "/run/main/sandboxes/box/ x"]))],
  ["a path without a slash", request(head([":path", "run/main/sandboxes/box/x"]))],
  ["an absolute path", request(head([":path", "http://sbx-box-w2.r.sandboxes.test/smuggled"]))],
  [
    "an absolute path of another scheme",
    request(head([":scheme", "foo"], [":path", "http://sbx-box-w1.r.sandboxes.test/smuggled"])),
  ],
  ["no path", request(head([":path", ""]))],
  ["another scheme", request(head([":scheme", "ftp"]))],
  ["no scheme", request(head().filter(([name]) => name !== ":scheme"))],
  ["a line break in the method", request(head([":method", "GET / HTTP/1.1\r\nx: y\r\n\r\nPOST"]))],
  ["a space in the method", request(head([":method", "GET /smuggled"]))],
  ["a line break in the authority", request(head([":authority", "x\r\nx-evil: smuggled"]))],
  ["another Host than the authority", request(head(["host", "sbx-box-w1.r.sandboxes.test"]))],
  ["two Hosts", request(head(["host", "x"], ["host", "y"]))],
  ["two authorities", request([...head(), [":authority", "y"]])],
  ["a pseudo header of a response", request(head([":status", "200"]))],
  ["a pseudo header behind the others", request([...head(), [":path", "/smuggled"]])],
  ["a transfer encoding", request(head(["transfer-encoding", "chunked"]), `0\r\n\r\n${smuggled}`)],
  ["a connection header", request(head(["connection", "close, authorization"]))],
  ["an upgrade", request(head(["upgrade", "websocket"]))],
  ["another TE than trailers", request(head(["te", "chunked"]))],
  ["a length that is too short", request(head(["content-length", "1"]), `x${smuggled}`)],
  ["a length that is too long", request(head(["content-length", "1000"]), smuggled)],
  ["a length without a body", request(head(["content-length", "5"]))],
  ["two lengths", request(head(["content-length", "0"], ["content-length", "4"]), "abcd")],
  ["a length with a sign", request(head(["content-length", "+4"]), "abcd")],
  ["two lengths in one", request(head(["content-length", "4, 4"]), "abcd")],
  ["a capital in a name", request(head(["Transfer-Encoding", "chunked"]))],
  [
    "a CONNECT with a body that is a request",
    request(
      [
        [":method", "CONNECT"],
        [":authority", "x"],
      ],
      smuggled,
    ),
  ],
];
for (const [what, frames] of attacks) {
  test(`${what} reaches nobody`, async () => {
    const before = edge.arrivals.length;
    const { status } = await converse(frames, ends);
    assert.notEqual(status, "200");
    await converse(request(head()), ends);
    await eventually(() => assert.ok(edge.arrivals.length > before), { intervalMs: 5 });
    const arrived = edge.arrivals
      .slice(before)
      .map(({ url, body, rawHeaders }) => JSON.stringify([url, body, rawHeaders]));
    assert.ok(
      arrived.every((text) => !text.includes("smuggled")),
      arrived.join("\n"),
    );
    assert.ok(edge.arrivals.slice(before).every(({ body }) => body === ""));
  });
}

test("a line break in a header takes it away and adds none", async () => {
  const broken: Pair[] = [
    ["x-a", "1\r\nx-smuggled: 2"],
    ["x-c: 1\r\nx-smuggled", "2"],
    ["", "smuggled"],
  ];
  const { status } = await converse(request(head(...broken, ["x-b", "3"])), ends);
  assert.equal(status, "200");
  const { rawHeaders } = edge.arrivals.at(-1)!;
  assert.ok(!rawHeaders.join("\n").includes("smuggled"));
  assert.ok(rawHeaders.includes("x-b"));
});

test("a body that looks like a request is a body, and trailers add no header", async () => {
  const sent = [
    frame(frameType.headers, endHeaders, 1, fields(...head())),
    frame(frameType.data, 0, 1, `0\r\n\r\n${smuggled}`),
    frame(
      frameType.headers,
      endHeaders | endStream,
      1,
      fields(["authorization", "y"], ["x-t", "\x80\xff"], ["host", "y"]),
    ),
  ];
  assert.equal((await converse(sent, ends)).status, "200");
  const { body, rawHeaders, url } = edge.arrivals.at(-1)!;
  assert.deepEqual([url, body], ["/x", `0\r\n\r\n${smuggled}`]);
  assert.ok(!rawHeaders.includes("y"));
});

const many = <T>(count: number, make: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at));
const floods: [what: string, frames: Buffer[]][] = [
  [
    "headers that never end",
    [
      frame(1, 0, 1, fields(...head())),
      ...many(5_000, () => frame(frameType.continuation, 0, 1, fields(["x", "y".repeat(500)]))),
    ],
  ],
  [
    "empty continuations",
    [frame(1, 0, 1, fields(...head())), ...many(50_000, () => frame(frameType.continuation, 0, 1))],
  ],
  ["pings whose answers nobody takes", many(100_000, () => frame(frameType.ping, 0, 0, "12345678"))],
  ["settings without an end", many(10_000, () => settings([4, 100]))],
  ["a thousand settings at once", [settings(...many(1_000, (at): [number, number] => [at + 16, 1]))]],
  ["empty pieces of a body", [frame(1, endHeaders, 1, fields(...head())), ...many(50_000, () => frame(0, 0, 1))]],
  ["a window that overflows", [frame(frameType.windowUpdate, 0, 0, number(0x7fff_ffff))]],
  ["streams that go backwards", [...request(head()), frame(1, endHeaders | endStream, 4, fields(...head()))]],
];
for (const [what, frames] of floods) {
  test(`${what} end the session`, async () => {
    assert.equal((await converse(frames, [frameType.goaway])).isTooLate, false);
    assert.equal((await converse(request(head()), ends)).status, "200");
  });
}

test("requests that are cancelled as fast as they come end the session", async () => {
  const frames = many(5_000, (at) => [
    frame(1, endHeaders | endStream, 2 * at + 1, fields(...head())),
    frame(frameType.rstStream, 0, 2 * at + 1, number(8)),
  ]).flat();
  const { types } = await converse(frames, [frameType.goaway]);
  assert.ok(types.includes(frameType.goaway));
  assert.equal((await converse(request(head()), ends)).status, "200");
});

test("methods that HTTP/1 does not know are refused in the shape of an error, and the others arrive", async () => {
  const session = connect(`http://127.0.0.1:${edge.port}`);
  opened.push(() => session.destroy());
  const stream = session.request({ ":method": "FROB", ":path": path, authorization: `Bearer ${apiKey}` });
  stream.end();
  const [answer] = (await once(stream, "response")) as [IncomingHttpHeaders];
  assert.equal(answer[":status"], 400);
  assert.match(String(answer["server-timing"]), /total;dur=/);
  assert.equal(JSON.parse(String(Buffer.concat(await stream.toArray()))).error, "BAD_REQUEST");
});

async function startBusy(options: TestEdgeOptions, connectionsMax: number) {
  const busy = await startEdge({ connectionsMax }, { ...options, answer: (response) => void response.write("begun") });
  opened.push(() => busy[Symbol.asyncDispose]());
  const openStreams = async (session: ClientHttp2Session, count: number) => {
    const streams = Array.from({ length: count }, () => {
      const stream = session.request({ ":path": path, authorization: `Bearer ${apiKey}` });
      stream.on("error", () => undefined);
      return stream;
    });
    const outcomes = streams.map(async (stream) => {
      const closed = new Promise<string>((resolve) => {
        stream.once("close", () => resolve(stream.rstCode === constants.NGHTTP2_REFUSED_STREAM ? "refused" : "broken"));
      });
      return await Promise.race([
        once(stream, "data").then(
          () => "begun",
          () => closed,
        ),
        closed,
      ]);
    });
    const all = await Promise.all(outcomes);
    return {
      streams,
      begun: all.filter((each) => each === "begun").length,
      refused: all.filter((each) => each === "refused").length,
    };
  };
  const session = (): ClientHttp2Session => {
    const each = connect(`http://127.0.0.1:${busy.port}`);
    each.on("error", () => undefined);
    opened.push(() => each.destroy());
    return each;
  };
  return { busy, session, openStreams };
}

test("streams count as connections: one source has a quarter of them, and the first of each session is its own", async () => {
  const { session, openStreams } = await startBusy({}, 40);
  const first = session();
  const { streams, begun, refused } = await openStreams(first, 20);
  assert.deepEqual([begun, refused], [11, 9]);
  const second = await openStreams(session(), 2);
  assert.deepEqual([second.begun, second.refused], [1, 1]);
  for (const stream of streams) stream.close(constants.NGHTTP2_CANCEL);
  await eventually(async () => {
    const again = await openStreams(first, 1);
    assert.equal(again.begun, 1);
  });
});

test("a proxy's streams are bounded by all connections, and new connections by its streams", async () => {
  const { busy, session, openStreams } = await startBusy({ proxies: ["127.0.0.0/8"] }, 40);
  const { begun, refused } = await openStreams(session(), 60);
  assert.deepEqual([begun, refused], [40, 20]);
  assert.equal(await busy.raw("GET /v0/x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"), "");
});

test("the end of an answer that nobody takes waits for a while only", async () => {
  const short = await startEdge({ untakenMs: 50 });
  opened.push(() => short[Symbol.asyncDispose]());
  const session = connect(`http://127.0.0.1:${short.port}`, { settings: { initialWindowSize: 0 } });
  opened.push(() => session.destroy());
  session.on("error", () => undefined);
  const stream = session.request({ ":path": path, authorization: `Bearer ${apiKey}` });
  stream.on("error", () => undefined);
  const [answer] = (await once(stream, "response")) as [IncomingHttpHeaders];
  assert.equal(answer[":status"], 200);
  await new Promise((resolve) => stream.once("close", resolve));
  assert.equal(stream.rstCode, constants.NGHTTP2_CANCEL);
  assert.equal(short.arrivals.length, 1);
});
