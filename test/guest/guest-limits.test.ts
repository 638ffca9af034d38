// A guest that says ever more, or never anything more, is bounded in the host's memory and time.
import assert from "node:assert/strict";
import { once } from "node:events";
import type { Socket } from "node:net";
import { Readable } from "node:stream";
import { test } from "node:test";
import { FrameWriter } from "../../src/host/guest/frames.ts";
import { frameType } from "../../src/host/guest/protocol.ts";
import { eventually } from "../eventually.ts";
import { attributesOf, emptyFrame, outputFrame, processFrame, startFakeGuest } from "./fake-guest.ts";

const megabyte = 1024 * 1024;

/** Writes the frames again and again, as fast as they are taken. */
function flood(socket: Socket, frames: Buffer): void {
  const more = (): void => {
    while (!socket.destroyed && socket.write(frames));
  };
  socket.on("drain", more);
  more();
}

test("a guest that does not read is sent no more than so much", async () => {
  await using fake = await startFakeGuest();
  await using connection = await fake.open();
  (await fake.control).pause();
  const request = { argv: ["true"], workingDir: "/", environment: { LARGE: "x".repeat(megabyte - 1_000) } };
  let refusals = 0;
  const calls: Promise<unknown>[] = [];
  for (let call = 0; call < 100; call++) {
    calls.push(
      connection.spawn({ ...request, token: `t${call}` }).catch((error) => {
        if (/does not read/.test(error.message)) refusals++;
      }),
    );
  }
  await eventually(() => assert.ok(refusals >= 60 && refusals < 80, `${refusals} of 100 were refused`));
  (await fake.control).destroy();
  await Promise.all(calls);
});

test("a guest that wants acknowledgements and does not read them is lost", async () => {
  await using fake = await startFakeGuest({ hello: Buffer.from("CATN\x01\x00\x01\x04") });
  const lost = Promise.withResolvers<string>();
  await using connection = await fake.open({ onLost: lost.resolve });
  const control = await fake.control;
  const channels = Array.from({ length: 4_000 }, (_, index) => index + 1);
  let offset = 0;
  // A byte of every process, and the next one when these are taken: each is acknowledged.
  const speak = (): void => {
    const at = offset++;
    control.write(Buffer.concat(channels.map((channel) => outputFrame(channel, 1, at, Buffer.from("x")))));
  };
  const attached = connection.attach({
    sink: {
      output: async (token) => {
        if (token === "t4000" && offset < 1_000) speak();
      },
      exit: async () => undefined,
    },
    onConnected: async () => undefined,
  });
  await once(control, "data");
  control.pause();
  control.write(Buffer.concat(channels.map((channel) => processFrame({ channel, token: `t${channel}` }))));
  control.write(emptyFrame(frameType.listed));
  await attached;
  const environment = { LARGE: "x".repeat(megabyte - 1_000) };
  const spawn = (_: unknown, call: number) =>
    connection.spawn({ token: `s${call}`, argv: ["true"], workingDir: "/", environment });
  const calls = [...Array.from({ length: 32 }, spawn), connection.upgrade(Buffer.alloc(16 * megabyte))];
  const settled = Promise.allSettled(calls);
  speak();
  assert.match(await lost.promise, /does not read/);
  assert.ok(offset > 5);
  await settled;
});

test("a list is refused whose names are longer than any, or that is longer than it was asked for", async () => {
  const long = attributesOf("n".repeat(256)).frame(frameType.entries, 0);
  const writer = new FrameWriter();
  for (let entry = 0; entry < 11; entry++) attributesOf(`n${entry}`, writer);
  for (const [answer, reason] of [
    [long, /text is too long/],
    [writer.frame(frameType.entries, 0), /longer than was allowed/],
  ] as const) {
    await using fake = await startFakeGuest({ onWorker: (socket) => void socket.write(answer) });
    const lost = Promise.withResolvers<string>();
    await using connection = await fake.open({ onLost: lost.resolve });
    await assert.rejects(connection.files.list("/", 10), { code: "upstream_failed" });
    assert.match(await lost.promise, reason);
  }
});

test("a walk that says without end that it goes on loses the guest", async () => {
  await using fake = await startFakeGuest({
    onWorker: (socket) => flood(socket, Buffer.concat(Array(1_000).fill(emptyFrame(frameType.found)))),
  });
  const lost = Promise.withResolvers<string>();
  await using connection = await fake.open({ onLost: lost.resolve });
  const options = { files: true, directories: true, skipHidden: false, excludeDirs: [], entriesMax: 10 };
  const walked = async (): Promise<void> => {
    for await (const found of connection.trees.walk("/", options)) assert.fail(`${found.length} were found`);
  };
  await assert.rejects(walked(), { code: "upstream_failed" });
  assert.match(await lost.promise, /goes on/);
});

test("a file whose content stops coming fails, however long its reader waits before", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const head = attributesOf("file", new FrameWriter().u64(megabyte)).frame(frameType.body, 0);
  await using fake = await startFakeGuest({
    onWorker: (socket) => void socket.write(Buffer.concat([head, Buffer.alloc(600_000)])),
  });
  await using connection = await fake.open();
  const { body } = await connection.files.read("/file");
  // It has filled its buffer by then and asks for nothing.
  await eventuallyWithoutTimers(() => body.readableLength >= 256 * 1024);
  context.mock.timers.tick(3_600_000);
  let length = 0;
  body.on("data", (chunk: Buffer) => {
    length += chunk.length;
  });
  await eventuallyWithoutTimers(() => length === 600_000);
  const failed = new Promise((resolve) => body.once("close", resolve));
  context.mock.timers.tick(59_000);
  assert.equal(body.destroyed, false);
  context.mock.timers.tick(1_000);
  await failed;
  assert.equal((body.errored as { code?: string } | null)?.code, "timeout");
});

test("an upload that is not taken, or taken and never answered, fails", async (context) => {
  for (const isRead of [false, true]) {
    context.mock.timers.enable({ apis: ["setTimeout"] });
    const begun = Promise.withResolvers<Socket>();
    await using fake = await startFakeGuest({
      onWorker(socket) {
        if (!isRead) socket.pause();
        begun.resolve(socket);
      },
    });
    await using connection = await fake.open();
    let sentBytes = 0;
    const body = Readable.from(
      (function* () {
        for (; sentBytes < 8 * megabyte; sentBytes += 65_536) yield Buffer.alloc(65_536);
      })(),
    );
    let isSettled = false;
    const written = assert.rejects(connection.files.write("/file", body), { code: "timeout" }).finally(() => {
      isSettled = true;
    });
    await begun.promise;
    await eventuallyWithoutTimers(() => (isRead ? body.readableEnded : body.isPaused()));
    await eventuallyWithoutTimers(() => {
      context.mock.timers.tick(60_000);
      return isSettled;
    });
    await written;
    context.mock.timers.reset();
  }
});

/** Asks in every turn of the event loop, for tests that hold the time. */
async function eventuallyWithoutTimers(check: () => boolean): Promise<void> {
  for (let turn = 0; turn < 1_000_000; turn++) {
    if (check()) return;
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
  assert.fail("it did not come to pass");
}
