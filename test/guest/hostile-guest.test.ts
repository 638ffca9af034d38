// A guest that breaks the protocol costs its own connection and nothing else: no memory, no wrong deliveries, no hanging calls.
import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { test } from "node:test";
import { FrameWriter, frameHeader } from "../../src/host/guest/frames.ts";
import { frameType } from "../../src/host/guest/protocol.ts";
import type { ProcessSink } from "../../src/sandbox-api/machine.ts";
import { eventually } from "../eventually.ts";
import { attributesOf, emptyFrame, exitFrame, outputFrame, processFrame, startFakeGuest } from "./fake-guest.ts";

const blockedSink: ProcessSink = {
  output: () => new Promise(() => undefined),
  exit: () => new Promise(() => undefined),
};

const listed = emptyFrame(frameType.listed);
const one = processFrame({ channel: 1, token: "one" });
const kilobytes = (count: number): Buffer => Buffer.alloc(count * 1024);

/** What a guest says after it was asked to resume, and what the host calls it. */
const violations: [name: string, frames: Buffer[], reason: RegExp][] = [
  ["a frame longer than any", [frameHeader(frameType.output, 1, 0xffff_ffff)], /too long/],
  ["an unknown type", [emptyFrame(0x7f)], /unasked/],
  ["a request", [emptyFrame(frameType.resume)], /unasked/],
  ["an answer nobody waits for", [emptyFrame(frameType.pong, 9)], /unasked/],
  ["a second list", [listed, listed], /unasked/],
  ["output before the list", [one, outputFrame(1, 1, 0, kilobytes(1)), listed], /before the list/],
  ["output of an unknown process", [listed, outputFrame(1, 1, 0, kilobytes(1))], /not known/],
  ["an end of an unknown process", [listed, exitFrame(1, 0)], /not known/],
  ["a gap in the output", [one, listed, outputFrame(1, 1, 1, kilobytes(1))], /offset/],
  ["output twice", [one, listed, outputFrame(1, 1, 0, kilobytes(1)), outputFrame(1, 1, 0, kilobytes(1))], /offset/],
  [
    "output that overlaps",
    [one, listed, outputFrame(1, 1, 0, kilobytes(1)), outputFrame(1, 1, 1023, kilobytes(1))],
    /offset/,
  ],
  [
    "output below what is acknowledged",
    [processFrame({ channel: 1, token: "one", acked: [100, 0] }), listed, outputFrame(1, 1, 0, kilobytes(1))],
    /offset/,
  ],
  [
    "more than the window",
    [one, listed, outputFrame(1, 1, 0, kilobytes(60)), outputFrame(1, 1, 60 * 1024, kilobytes(5))],
    /window/,
  ],
  ["output after the end", [one, listed, exitFrame(1, 0), outputFrame(1, 1, 0, kilobytes(1))], /after the end/],
  ["a second end", [one, listed, exitFrame(1, 0), exitFrame(1, 0)], /twice/],
  ["one channel for two processes", [one, processFrame({ channel: 1, token: "two" }), listed], /channel is used twice/],
  ["one token for two processes", [one, processFrame({ channel: 2, token: "one" }), listed], /token is listed twice/],
  [
    "more processes than there can be",
    [Buffer.concat(Array.from({ length: 4097 }, (_, index) => processFrame({ channel: index, token: `t${index}` })))],
    /too many processes/,
  ],
];

for (const [name, frames, reason] of violations) {
  test(`${name} closes the connection`, async () => {
    await using fake = await startFakeGuest();
    const lost = Promise.withResolvers<string>();
    await using connection = await fake.open({ onLost: lost.resolve });
    const control = await fake.control;
    control.once("data", () => control.write(Buffer.concat(frames)));
    const attached = connection.attach({ sink: blockedSink, onConnected: async () => undefined });
    attached.catch(() => undefined);
    assert.match(await lost.promise, reason);
    await assert.rejects(connection.ping(), { code: "unavailable" });
    await eventually(() => assert.ok(control.destroyed || control.readableEnded));
  });
}

test("what listens there and is no guest is unavailable", async () => {
  const answers: [Buffer, RegExp][] = [
    [Buffer.from("HTTP/1.1 400 Bad Request\r\n"), /not a guest/],
    [Buffer.from("CATN\x02\x00\x01\x00"), /version 2/],
    [Buffer.from("CATN\x01\x00\x02\x00"), /hello/],
  ];
  for (const [hello, message] of answers) {
    await using fake = await startFakeGuest({ hello });
    await assert.rejects(fake.open(), { code: "unavailable", message });
  }
  await using silent = await startFakeGuest({ hello: Buffer.from("CAT") });
  await assert.rejects(silent.open({ connectTimeoutMs: 50 }), { code: "timeout" });
  await assert.rejects(silent.open({ connectTimeoutMs: 50 }), { code: "timeout" });
});

test("nothing there is unavailable", async () => {
  const fake = await startFakeGuest();
  await fake[Symbol.asyncDispose]();
  await assert.rejects(fake.open(), { code: "unavailable" });
});

test("a guest that goes away rejects every waiting call and is reported once", async () => {
  await using fake = await startFakeGuest();
  const reasons: string[] = [];
  await using connection = await fake.open({ onLost: (reason) => void reasons.push(reason) });
  const control = await fake.control;
  const calls = [
    connection.ping(),
    connection.signal("one", 15),
    connection.spawn({ token: "two", argv: ["true"], workingDir: "/", environment: {} }),
    connection.attach({ sink: blockedSink, onConnected: async () => undefined }),
  ];
  const settled = Promise.allSettled(calls);
  control.end();
  for (const result of await settled) {
    assert.equal(result.status, "rejected");
    assert.equal(result.reason.code, "unavailable");
  }
  assert.equal(reasons.length, 1);
});

test("a call that is aborted rejects at once, and its late answer harms nobody", async () => {
  await using fake = await startFakeGuest();
  await using connection = await fake.open({ onLost: (reason) => assert.fail(reason) });
  const control = await fake.control;
  const request = new Promise<number>((resolve) =>
    control.once("data", (piece: Buffer) => resolve(piece.readUInt32LE(5))),
  );
  const abort = new AbortController();
  const spawned = connection.spawn({ token: "one", argv: ["true"], workingDir: "/", environment: {} }, abort.signal);
  const number = await request;
  abort.abort(new Error("not any more"));
  await assert.rejects(spawned, /not any more/);
  control.write(new FrameWriter().u32(0).u32(7).u32(1).text("").frame(frameType.spawned, number));
  control.on("data", (piece: Buffer) => control.write(emptyFrame(frameType.pong, piece.readUInt32LE(5))));
  await connection.ping();
});

test("a flood of output that nobody takes stays in the guest, not in the host's memory", async () => {
  await using fake = await startFakeGuest();
  await using connection = await fake.open({ onLost: (reason) => assert.fail(reason) });
  const control = await fake.control;
  const count = 1_000;
  const gate = Promise.withResolvers<void>();
  let taken = 0;
  let ended = 0;
  const frames: Buffer[] = [];
  for (let channel = 1; channel <= count; channel++) frames.push(processFrame({ channel, token: `t${channel}` }));
  frames.push(listed);
  for (let channel = 1; channel <= count; channel++) {
    frames.push(outputFrame(channel, 1, 0, kilobytes(32)), outputFrame(channel, 1, 32 * 1024, kilobytes(32)));
    frames.push(exitFrame(channel, 0));
  }
  let passed = 0;
  control.once("data", async () => {
    // One after the other: a piece counts once the kernel has it.
    for (const frame of frames) {
      await new Promise<unknown>((resolve) => control.write(frame, resolve));
      passed += frame.length;
    }
  });
  await connection.attach({
    onConnected: async () => undefined,
    sink: {
      async output(_token, _stream, _offset, chunk) {
        await gate.promise;
        taken += chunk.length;
      },
      exit: async () => {
        ended++;
      },
    },
  });
  let before = -1;
  await eventually(
    () => {
      const isStill = passed === before;
      before = passed;
      assert.ok(isStill && passed > 8 * 1024 * 1024);
    },
    { intervalMs: 200 },
  );
  assert.ok(passed < 18 * 1024 * 1024, `${passed} bytes were read`);
  gate.resolve();
  await eventually(() => assert.equal(ended, count));
  assert.equal(taken, count * 64 * 1024);
});

const file = attributesOf("file").frame(frameType.attributes, 0);
const failedWith = (errno: number): Buffer => new FrameWriter().u32(errno).text("stat").frame(frameType.failed, 0);

for (const [name, answer, reason] of [
  ["an answer of another type", emptyFrame(frameType.done), /another type/],
  ["an answer of the control connection", emptyFrame(frameType.pong), /another type/],
  ["an answer longer than any", frameHeader(frameType.attributes, 0, 1_000_000), /too long/],
  ["a failure that is none", frameHeader(frameType.failed, 0, 0), /too short/],
] as const) {
  test(`a worker with ${name} loses the guest`, async () => {
    await using fake = await startFakeGuest({ onWorker: (socket) => void socket.end(answer) });
    const lost = Promise.withResolvers<string>();
    await using connection = await fake.open({ onLost: lost.resolve });
    await assert.rejects(connection.files.stat("/file"), { code: "upstream_failed" });
    assert.match(await lost.promise, reason);
  });
}

test("a worker that dies, before or within its answer, fails the one call", async () => {
  const answers = [Buffer.alloc(0), file.subarray(0, 3), file.subarray(0, 20)];
  await using fake = await startFakeGuest({ onWorker: (socket) => void socket.end(answers.shift() ?? file) });
  await using connection = await fake.open({ onLost: (reason) => assert.fail(reason) });
  for (let call = 0; call < 3; call++) await assert.rejects(connection.files.stat("/file"), { code: "unavailable" });
  assert.equal((await connection.files.stat("/file")).name, "file");
});

test("what a kept worker did not begin to answer is asked once more, and nothing else is", async () => {
  for (const [begunBytes, requests] of [
    [0, 3],
    [3, 2],
    [20, 2],
  ] as const) {
    let asked = 0;
    await using fake = await startFakeGuest({
      hello: Buffer.from("CATN\x01\x00\x01\x04"),
      onWorker(socket) {
        asked += 1;
        if (asked === 2) socket.end(file.subarray(0, begunBytes));
        else socket.write(file);
      },
    });
    await using connection = await fake.open({ onLost: (reason) => assert.fail(reason) });
    await connection.files.setMode("/file", 0o600);
    const [second] = await Promise.allSettled([connection.files.setMode("/file", 0o644)]);
    assert.deepEqual([second.status, asked], [begunBytes === 0 ? "fulfilled" : "rejected", requests]);
  }
});

test("an errno without a name is still an error", async () => {
  await using fake = await startFakeGuest({ onWorker: (socket) => void socket.end(failedWith(4_000)) });
  await using connection = await fake.open();
  await assert.rejects(connection.files.stat("/file"), { code: "unprocessable", details: { errno: "E4000" } });
});

test("a list without end is cut off", async () => {
  const writer = new FrameWriter();
  for (let entry = 0; entry < 800; entry++) attributesOf("entry", writer);
  const entries = writer.frame(frameType.entries, 0);
  await using fake = await startFakeGuest({
    onWorker(socket) {
      const more = (): void => {
        while (!socket.destroyed && socket.write(entries));
      };
      socket.on("drain", more);
      more();
    },
  });
  const lost = Promise.withResolvers<string>();
  await using connection = await fake.open({ onLost: lost.resolve });
  await assert.rejects(connection.files.list("/"), { code: "upstream_failed" });
  assert.match(await lost.promise, /longer than was allowed/);
});

test("a list that says nothing again and again loses the guest, and one that never ends is left", async (context) => {
  const one = attributesOf("entry").frame(frameType.entries, 0);
  const nothing = emptyFrame(frameType.entries);
  const now = performance.now.bind(performance);
  let passedMs = 0;
  context.mock.method(performance, "now", () => now() + passedMs);
  const answers = [
    () => [nothing, emptyFrame(frameType.done)],
    () => {
      passedMs += 11 * 60_000;
      return [one];
    },
    () => [nothing, nothing],
  ];
  await using fake = await startFakeGuest({
    onWorker: (socket) => void socket.write(Buffer.concat(answers.shift()!())),
  });
  const lost = Promise.withResolvers<string>();
  await using connection = await fake.open({ onLost: lost.resolve });
  assert.deepEqual(await connection.files.list("/"), []);
  await assert.rejects(connection.files.list("/"), { code: "timeout" });
  await assert.rejects(connection.files.list("/"), { code: "upstream_failed" });
  assert.match(await lost.promise, /empty frame/);
});

test("a write that is never answered has an end", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  for (const [bytes, limitMs] of [
    [1, 30_000],
    [1024 * 1024, 600_000],
  ] as const) {
    const asked = Promise.withResolvers<void>();
    await using fake = await startFakeGuest({ onWorker: () => asked.resolve() });
    await using connection = await fake.open();
    const written = assert.rejects(connection.files.write("/file", Buffer.alloc(bytes)), { code: "timeout" });
    await asked.promise;
    context.mock.timers.tick(limitMs);
    await written;
  }
});

test("a body longer than promised is cut, and a shorter one fails", async () => {
  const body = (length: number): Buffer => attributesOf("file", new FrameWriter().u64(length)).frame(frameType.body, 0);
  const answers = [
    Buffer.concat([body(3), Buffer.from("four")]),
    Buffer.concat([body(5), Buffer.from("four")]),
    Buffer.concat([body(4), Buffer.from("four")]),
  ];
  await using fake = await startFakeGuest({ onWorker: (socket) => void socket.end(answers.shift() ?? "") });
  await using connection = await fake.open();
  const read = async (): Promise<string> => {
    let content = "";
    for await (const chunk of (await connection.files.read("/file")).body) content += String(chunk);
    return content;
  };
  await assert.rejects(read(), { code: "upstream_failed" });
  await assert.rejects(read(), { code: "conflict" });
  assert.equal(await read(), "four");
});

test("a refusal in the middle of an upload ends it without waiting for the body", async () => {
  await using fake = await startFakeGuest({
    onWorker(socket, received) {
      if (received.length > 0 && !socket.writableEnded) socket.end(failedWith(28));
    },
  });
  await using connection = await fake.open();
  const body = new Readable({ read: () => undefined });
  body.push(kilobytes(64));
  await assert.rejects(connection.files.write("/file", body), { code: "unprocessable", details: { errno: "ENOSPC" } });
  assert.equal(body.destroyed, false);
  body.destroy();
});
