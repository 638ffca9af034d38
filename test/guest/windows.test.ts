// Wide windows of output: agreed, bounded, narrow again before another init takes over.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { encodeHello, FrameReader } from "../../src/host/guest/frames.ts";
import { decodeOutput, encodeAck, encodeEmpty, encodeWindow } from "../../src/host/guest/messages.ts";
import { connectionKind, frameType, helloBytes, wideWindowBytes, windowBytes } from "../../src/host/guest/protocol.ts";
import { eventually } from "../eventually.ts";
import { startAttached } from "./start-attached.ts";
import { startGuest } from "./start-guest.ts";

const mib = 1024 * 1024;
const shell = (token: string, script: string) => ({
  token,
  argv: ["sh", "-c", script],
  workingDir: "/",
  environment: { PATH: "/usr/bin:/bin" },
});

/** A host that allows so much of the one process held, or says nothing of it, and acknowledges what it is told to. */
async function connectHost(socketPath: string, window?: number) {
  const socket = connect(socketPath);
  await once(socket, "connect");
  const reader = new FrameReader(64 * 1024);
  const received: Buffer[] = [];
  let channel = 0;
  let greeted = false;
  let begin = 0;
  socket.on("data", (piece: Buffer) => {
    reader.push(piece);
    if (!greeted) greeted = reader.takeBytes(helloBytes) !== undefined;
    for (let frame = greeted ? reader.next() : undefined; frame !== undefined; frame = reader.next()) {
      channel = frame.channel;
      if (frame.type !== frameType.output) continue;
      const { offset, bytes } = decodeOutput(frame);
      if (received.length === 0) begin = offset;
      received.push(Buffer.from(bytes));
    }
  });
  const frames = window === undefined ? [] : [encodeWindow(window)];
  socket.write(Buffer.concat([encodeHello(connectionKind.control), ...frames, encodeEmpty(frameType.resume, 0)]));
  return {
    bytes: () => Buffer.concat(received),
    end: () => begin + Buffer.concat(received).length,
    acknowledge: (offset: number) => socket.write(encodeAck(channel, "stdout", offset)),
    async [Symbol.asyncDispose]() {
      socket.destroy();
      await once(socket, "close");
    },
  };
}

test("a host is sent as much as it allows, also of what a former one allowed more of", async () => {
  await using guest = await startGuest();
  {
    await using first = await guest.open();
    await first.spawn(shell("talks", `head -c ${4 * mib} /dev/urandom | tee ${guest.dir}/written; exec sleep 60`));
  }
  {
    await using wide = await connectHost(guest.socketPath, 8 * mib);
    await eventually(() => assert.equal(wide.end(), wideWindowBytes));
  }
  const written = () => readFileSync(join(guest.dir, "written"));
  {
    await using narrow = await connectHost(guest.socketPath);
    await eventually(() => assert.equal(narrow.end(), windowBytes));
    narrow.acknowledge(10_000);
    await eventually(() => assert.equal(narrow.end(), windowBytes + 10_000));
    assert.ok(narrow.bytes().equals(written().subarray(0, windowBytes + 10_000)));
    narrow.acknowledge(windowBytes);
    await eventually(() => assert.equal(narrow.end(), 2 * windowBytes));
  }
  await using last = await connectHost(guest.socketPath, 2 * windowBytes);
  let acknowledged = windowBytes;
  await eventually(
    () => {
      const end = last.end();
      assert.ok(end - acknowledged <= 2 * windowBytes);
      if (end > acknowledged) last.acknowledge(end);
      acknowledged = Math.max(acknowledged, end);
      assert.equal(end, 4 * mib);
    },
    { intervalMs: 1 },
  );
  // A copy is written down after it was said.
  await eventually(() => assert.equal(written().length, 4 * mib));
  assert.ok(last.bytes().equals(written().subarray(windowBytes)));
});

// A sanitizer keeps memory of its own.
const skip = process.env.CATNAP_GUEST_BINARY !== undefined;

test("of twenty streams that nobody takes eight have a wide window, and all memory goes back", { skip }, async () => {
  await using session = await startAttached();
  const { guest, connection, recorder } = session;
  const gate = Promise.withResolvers<void>();
  const tokens = Array.from({ length: 20 }, (_, index) => `full${index}`);
  const anonymousKb = () => Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${guest.pid}/status`, "utf8"))?.[1]);
  const emptyKb = anonymousKb();
  for (const token of tokens) {
    recorder.gates.set(token, gate.promise);
    await connection.spawn(shell(token, `head -c ${3 * mib} /dev/zero`));
  }
  const fullKb = (8 * wideWindowBytes + 12 * windowBytes) / 1024;
  await eventually(() => assert.ok(anonymousKb() >= fullKb));
  assert.ok(anonymousKb() <= emptyKb + fullKb + 512, `${anonymousKb()} kB`);
  gate.resolve();
  for (const token of tokens) {
    assert.deepEqual(await recorder.ended(token), { code: 0 });
    assert.equal(recorder.length(token), 3 * mib);
  }
  await eventually(() => assert.ok(anonymousKb() <= emptyKb + 512, `${anonymousKb()} kB`));
});

test("an init that is to be replaced hands over no more than one of any revision takes", async () => {
  await using session = await startAttached();
  const { guest, connection, recorder } = session;
  const [path, program] = [join(guest.dir, "state"), join(guest.dir, "takes")];
  const source = `#include <fcntl.h>
#include <unistd.h>
int main(void) {
  char bytes[4096];
  int out = open("${path}", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (ssize_t got; (got = read(3, bytes, sizeof bytes)) > 0;) write(out, bytes, got);
  return 7;
}`;
  execFileSync("musl-gcc", ["-w", "-static", "-x", "c", "-", "-o", program], { input: source });
  await connection.spawn(shell("talks", `while [ ! -e ${guest.dir}/stop ]; do seq 1 50000; done; echo end`));
  await eventually(() => assert.ok(recorder.length("talks") > mib));
  for (let round = 0; round < 20; round++) {
    await assert.rejects(connection.upgrade(readFileSync(program)), /ended with code 7/);
    // The window, what is composed for the socket, and what there is to say of one process.
    assert.ok(readFileSync(path).length < windowBytes + 64 * 1024 + 4096, "more is held than an init takes");
  }
  await connection.files.write(`${guest.dir}/stop`, Buffer.alloc(0));
  assert.deepEqual(await recorder.ended("talks"), { code: 0 });
  let once = "";
  for (let number = 1; number <= 50_000; number++) once += `${number}\n`;
  const text = recorder.text("talks");
  const times = (text.length - 4) / once.length;
  assert.ok(Number.isInteger(times) && text === `${once.repeat(times)}end\n`);
});
