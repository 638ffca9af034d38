// What a process says on its way to the sink: acknowledged whenever the sink answers, in memory that nobody uses meanwhile.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Frame } from "../../src/host/guest/frames.ts";
import { decodeOutput } from "../../src/host/guest/messages.ts";
import { type Delivery, ProcessFeed } from "../../src/host/guest/process-feed.ts";
import { frameType } from "../../src/host/guest/protocol.ts";
import type { OutputStream, ProcessSink } from "../../src/sandbox-api/machine.ts";
import { log } from "../sandbox-api/harness.ts";

const windowBytes = 1024 * 1024;

function newFeed(channel = 1): ProcessFeed {
  return new ProcessFeed({ token: `t${channel}`, channel, pid: channel }, [0, 0]);
}

function deliveryTo(sink: ProcessSink, acked: Partial<Record<OutputStream, number>> = {}): Delivery {
  return {
    sink,
    log,
    stopped: new AbortController().signal,
    account: () => undefined,
    acknowledge: (stream, offset) => {
      acked[stream] = offset;
    },
    acknowledgeExit: () => undefined,
  };
}

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await undefined;
}

test("all that is taken is acknowledged, in whichever turn the sink takes it and wants more", async () => {
  for (let outputTurns = 0; outputTurns < 16; outputTurns += 1) {
    for (let paceTurns = 0; paceTurns < 40; paceTurns += 1) {
      const feed = newFeed();
      feed.receive({ stream: "stdout", offset: 0, bytes: Buffer.from("one") }, windowBytes);
      feed.receive({ stream: "stderr", offset: 0, bytes: Buffer.from("two") }, windowBytes);
      feed.receive({ stream: "stdout", offset: 3, bytes: Buffer.from("three") }, windowBytes);
      const acked: Partial<Record<OutputStream, number>> = {};
      const sink: ProcessSink = {
        output: () => turns(outputTurns),
        pace: () => turns(paceTurns),
        exit: async () => undefined,
      };
      await feed.deliver(deliveryTo(sink, acked));
      await new Promise((resolve) => setImmediate(resolve));
      assert.deepEqual(acked, { stdout: 8, stderr: 3 }, `output takes ${outputTurns} turns, pace ${paceTurns}`);
    }
  }
});

test("memory in the sink's hands is not used by what comes meanwhile, of the same process or another", async () => {
  const size = 48 * 1024;
  const slow = newFeed(1);
  const other = newFeed(2);
  const isTaken = Promise.withResolvers<void>();
  const taken: string[] = [];
  const slowSink: ProcessSink = {
    output: async (_token, _stream, _offset, chunk) => {
      await isTaken.promise;
      taken.push(chunk.toString("latin1"));
    },
    exit: async () => undefined,
  };
  const quickSink: ProcessSink = { output: async () => undefined, exit: async () => undefined };
  slow.receive({ stream: "stdout", offset: 0, bytes: Buffer.alloc(size, "a") }, windowBytes);
  const delivered = slow.deliver(deliveryTo(slowSink));
  slow.receive({ stream: "stdout", offset: size, bytes: Buffer.alloc(size, "b") }, windowBytes);
  for (let round = 0; round < 40; round += 1) {
    other.receive({ stream: "stdout", offset: round * size, bytes: Buffer.alloc(size, "x") }, windowBytes);
    await other.deliver(deliveryTo(quickSink));
  }
  isTaken.resolve();
  await delivered;
  assert.deepEqual(taken, ["a".repeat(size), "b".repeat(size)]);
});

test("a frame with more output than a narrow window holds breaks the protocol, whatever was allowed", () => {
  const frameOf = (length: number): Frame => {
    const head = Buffer.from([1, 0, 0, 0, 0, 0, 0, 0, 0]);
    return { type: frameType.output, channel: 1, payload: Buffer.concat([head, Buffer.alloc(length, "x")]) };
  };
  assert.equal(decodeOutput(frameOf(64 * 1024)).bytes.length, 64 * 1024);
  assert.throws(() => decodeOutput(frameOf(64 * 1024 + 1)), /output frame is too long/);
});
