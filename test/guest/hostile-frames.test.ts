// Whatever one frame a guest or a worker sends at a moment, every call ends: with an answer of its type, or with an error of ours.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { AppError } from "../../src/core/errors.ts";
import { frameHeader } from "../../src/host/guest/frames.ts";
import type { GuestConnection } from "../../src/host/guest/guest.ts";
import { frameType } from "../../src/host/guest/protocol.ts";
import { emptyFrame, processFrame, startFakeGuest } from "./fake-guest.ts";

const vectors = Object.values(
  JSON.parse(readFileSync(join(import.meta.dirname, "vectors.json"), "utf8")) as Record<string, { hex: string }[]>,
).flat();

/** What guests send, as it stands, cut short and with a byte too many; every type with nothing and with noise. */
function everyFrame(channel: number): Buffer[] {
  const frames: Buffer[] = [];
  for (const { hex } of vectors) {
    const bytes = Buffer.from(hex, "hex");
    if (bytes.length < 9 || bytes[4]! < frameType.process) continue;
    bytes.writeUInt32LE(channel, 5);
    const payload = bytes.subarray(9);
    for (const bent of [payload, payload.subarray(0, -1), Buffer.concat([payload, Buffer.alloc(1)])]) {
      frames.push(Buffer.concat([frameHeader(bytes[4]!, channel, bent.length), bent]));
    }
  }
  for (const type of [...Object.values(frameType), 0, 0x7f, 0xff]) {
    frames.push(emptyFrame(type, channel), Buffer.concat([frameHeader(type, channel, 40), Buffer.alloc(40, 0xff)]));
  }
  return frames;
}

const request = { token: "one", argv: ["true"], workingDir: "/", environment: {} };
const sink = { output: async () => undefined, exit: async () => undefined };
const walkOptions = { files: true, directories: true, skipHidden: false, excludeDirs: [], entriesMax: 100 };

async function drained(items: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of items);
}

async function settles(call: Promise<unknown>, what: string): Promise<void> {
  await call.catch((error: unknown) => {
    assert.ok(error instanceof AppError && error.code !== "internal", `${what}: ${String(error)}`);
  });
}

const asked: Record<string, (connection: GuestConnection) => Promise<unknown>> = {
  nothing: async () => undefined,
  spawn: (connection) => connection.spawn(request),
  signal: (connection) => connection.signal("one", 15),
  ping: (connection) => connection.ping(),
  input: (connection) => connection.writeStdin("one", Buffer.from("x"), { offset: 0 }),
  resize: (connection) => connection.resizeTerminal("one", { columns: 80, rows: 24 }),
  upgrade: (connection) => connection.upgrade(Buffer.from("binary")),
};
const listed = [processFrame({ channel: 1, token: "one" }), emptyFrame(frameType.listed)];
const moments: Record<string, Buffer[] | undefined> = {
  "before a list": undefined,
  "within it": [],
  "after it": listed,
};

for (const [name, ask] of Object.entries(asked)) {
  for (const [moment, said] of Object.entries(moments)) {
    test(`any frame while ${name} is asked, ${moment}`, async () => {
      for (const frame of everyFrame(1)) {
        await using fake = await startFakeGuest({ hello: Buffer.from("CATN\x01\x00\x01\x04") });
        await using connection = await fake.open();
        const control = await fake.control;
        control.resume();
        const attached = said && connection.attach({ sink, onConnected: async () => undefined });
        attached?.catch(() => undefined);
        if (said !== undefined && said.length > 0) {
          control.write(Buffer.concat(said));
          await attached;
        }
        const call = settles(ask(connection), `${name} ${frame.toString("hex").slice(0, 60)}`);
        control.end(frame);
        await call;
        await settles(connection.ping(), "afterwards");
      }
    });
  }
}

const workers: Record<string, (connection: GuestConnection) => Promise<unknown>> = {
  stat: ({ files }) => files.stat("/f"),
  "set mode": ({ files }) => files.setMode("/f", 0o600),
  list: ({ files }) => files.list("/"),
  read: async ({ files }) => drained((await files.read("/f")).body),
  write: ({ files }) => files.write("/f", Buffer.from("x")),
  "make directory": ({ files }) => files.makeDirectory("/d"),
  remove: ({ files }) => files.remove("/f"),
  concatenate: ({ files }) => files.concatenate("/f", ["/g"]),
  walk: ({ trees }) => drained(trees.walk("/", walkOptions)),
  watch: async ({ trees }) => drained(await trees.watch("/", { recursive: true, signal: AbortSignal.timeout(5_000) })),
  sockets: (connection) => connection.sockets(),
  connect: async (connection) => (await connection.connect(80)).destroy(),
  "connect to": async (connection) => (await connection.connectTo("host", 80)).destroy(),
};

for (const [name, work] of Object.entries(workers)) {
  test(`any frame from the worker of ${name}`, async () => {
    for (const first of [undefined, emptyFrame(frameType.done)]) {
      for (const frame of everyFrame(0)) {
        const said = first === undefined ? frame : Buffer.concat([first, frame]);
        await using fake = await startFakeGuest({
          hello: Buffer.from("CATN\x01\x00\x01\x04"),
          onWorker: (socket) => void (socket.writableEnded || socket.end(said)),
        });
        await using connection = await fake.open();
        await settles(work(connection), `${name} ${frame.toString("hex").slice(0, 60)}`);
      }
    }
  });
}
