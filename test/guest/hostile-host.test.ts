// Bytes no host would send: the init closes the connection they came on, and goes on for everybody else.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { encodeHello, frameHeader } from "../../src/host/guest/frames.ts";
import { encodeSpawn } from "../../src/host/guest/messages.ts";
import { type ConnectionKind, frameType } from "../../src/host/guest/protocol.ts";
import { eventually } from "../eventually.ts";
import { startGuest } from "./start-guest.ts";

type Vectors = Record<"hostToGuest" | "guestToHost" | "invalidForGuest", { name: string; hex: string }[]>;
const vectors = JSON.parse(readFileSync(join(import.meta.dirname, "vectors.json"), "utf8")) as Vectors;

/** Sends bytes and the end; resolves with what the guest answered once it has closed. */
async function say(socketPath: string, bytes: Buffer, { end = true } = {}): Promise<Buffer> {
  const socket = connect({ path: socketPath, allowHalfOpen: true });
  const answer: Buffer[] = [];
  socket.on("data", (piece: Buffer) => answer.push(piece));
  // A guest that closes with bytes unread resets the connection.
  socket.on("error", () => undefined);
  socket.on("end", () => socket.destroy());
  if (end) socket.end(bytes);
  else socket.write(bytes);
  await new Promise((resolve) => socket.on("close", resolve));
  return Buffer.concat(answer);
}

const control = encodeHello(1);

test("what is no hello is closed without an answer, and another version is named", async () => {
  await using guest = await startGuest();
  for (const bytes of [Buffer.from("GET / HTTP/1.1\r\n\r\n"), Buffer.alloc(64), Buffer.from("CATN\x01\x00\x09\x00")]) {
    assert.equal((await say(guest.socketPath, bytes, { end: false })).length, 0);
  }
  const newer = await say(guest.socketPath, Buffer.from("CATN\x02\x00\x01\x00"), { end: false });
  assert.equal(newer.toString("hex"), "4341544e01000104");
  await using connection = await guest.open();
  await connection.ping();
});

test("frames that break the protocol close the control connection", async () => {
  await using guest = await startGuest();
  const breaking: [string, Buffer][] = [
    ["a frame too long", frameHeader(frameType.spawn, 1, 1024 * 1024 + 1)],
    ["an unknown type", frameHeader(0x7f, 0, 0)],
    ["an answer", frameHeader(frameType.pong, 0, 0)],
    ["a resume with a payload", Buffer.concat([frameHeader(frameType.resume, 0, 1), Buffer.alloc(1)])],
    ["a second resume", Buffer.concat([frameHeader(frameType.resume, 0, 0), frameHeader(frameType.resume, 0, 0)])],
    ["an end nobody was told", frameHeader(frameType.exitAck, 5, 0)],
    ["an acknowledgement cut short", Buffer.concat([frameHeader(frameType.ack, 1, 2), Buffer.alloc(2)])],
    ["an acknowledgement of nothing", Buffer.concat([spawnFrame("early", "sleep 60"), ackOf(1, 1_000)])],
  ];
  for (const [name, frame] of breaking) {
    const answer = await say(guest.socketPath, Buffer.concat([control, frame]), { end: false });
    assert.equal(answer.subarray(0, 8).toString("hex"), "4341544e01000104", name);
  }
  await using connection = await guest.open();
  await connection.signal("early", 9);
});

function spawnFrame(token: string, script: string): Buffer {
  return encodeSpawn(1, { token, argv: ["sh", "-c", script], workingDir: "/", environment: { PATH: "/usr/bin:/bin" } });
}

function ackOf(channel: number, offset: number): Buffer {
  const payload = Buffer.alloc(9);
  payload.writeUInt8(1, 0);
  payload.writeUInt32LE(offset, 1);
  return Buffer.concat([frameHeader(frameType.ack, channel, 9), payload]);
}

test("malformed requests are answered with EINVAL by whoever they were for", async () => {
  await using guest = await startGuest();
  for (const { name, hex } of vectors.invalidForGuest) {
    const frame = Buffer.from(hex, "hex");
    const type = frame.readUInt8(4);
    if (type < frameType.setMode) continue;
    const kind: ConnectionKind = type === frameType.connect || type === frameType.connectTo ? 3 : 2;
    const answer = await say(guest.socketPath, Buffer.concat([encodeHello(kind), frame]));
    assert.equal(answer.subarray(4, 13).toString("hex"), "650000000016000000", name);
  }
  // A tunnel is not for files, nor the other way round.
  for (const name of ["connect", "connect to a name"]) {
    const frame = vectors.hostToGuest.find((vector) => vector.name === name)!;
    const answer = await say(guest.socketPath, Buffer.concat([encodeHello(2), Buffer.from(frame.hex, "hex")]));
    assert.equal(answer.subarray(4, 13).toString("hex"), "650000000016000000", name);
  }
});

test("a frame that comes byte by byte is understood, however long", async () => {
  await using guest = await startGuest();
  const socket = connect(guest.socketPath);
  const answer: Buffer[] = [];
  socket.on("data", (piece: Buffer) => answer.push(piece));
  const frames = Buffer.concat([control, spawnFrame("slow", `exit 0 # ${"x".repeat(40_000)}`)]);
  // The first bytes one at a time, then pieces that straddle the guest's buffer.
  const cuts = [...Array.from({ length: 40 }, () => 1), 16_300, 200, 1, frames.length];
  let at = 0;
  for (const length of cuts) {
    await new Promise<unknown>((resolve) => socket.write(frames.subarray(at, at + length), resolve));
    at += length;
    await new Promise((resolve) => setImmediate(resolve));
  }
  await eventually(() => assert.equal(Buffer.concat(answer).readUInt8(12), frameType.spawned));
  assert.equal(Buffer.concat(answer).readUInt32LE(17), 0);
  socket.destroy();
});

test("many requests at once are all answered, also when nobody reads the answers for a while", async () => {
  await using guest = await startGuest();
  const socket = connect(guest.socketPath);
  await once(socket, "connect");
  socket.pause();
  const count = 200_000;
  const pings = Buffer.concat(Array.from({ length: count }, (_, index) => frameHeader(frameType.ping, index, 0)));
  const written = new Promise<unknown>((resolve) => socket.write(Buffer.concat([control, pings]), resolve));
  let length = 0;
  const last = Promise.withResolvers<void>();
  socket.on("data", (piece: Buffer) => {
    length += piece.length;
    if (length === 8 + count * 9) last.resolve();
  });
  socket.resume();
  await Promise.all([written, last.promise]);
  socket.destroy();
});

test("mutated conversations of every kind leave the init alive and without leftovers", async () => {
  await using guest = await startGuest();
  const frames = [...vectors.hostToGuest, ...vectors.guestToHost, ...vectors.invalidForGuest]
    .map(({ hex }) => Buffer.from(hex, "hex"))
    .filter((frame) => frame.length !== 8);
  // Nothing that could hurt the machine this runs on: no program, no signal, no path that exists.
  const harmless = frames.filter((frame) => ![frameType.spawn, frameType.signal].includes(frame.readUInt8(4) as 2 | 3));
  const random = randomBytes(200_000);
  let at = 0;
  const next = (limit: number): number => {
    at = (at + 2) % (random.length - 2);
    return random.readUInt16LE(at) % limit;
  };
  for (let round = 0; round < 600; round++) {
    const parts = Array.from({ length: 1 + next(4) }, () => Buffer.from(harmless[next(harmless.length)]!));
    for (const part of parts) {
      // Types and paths stay what they are; lengths, numbers and everything else may change.
      for (let change = next(3); change > 0; change--) part[next(4)] = next(256);
    }
    const hello = encodeHello((1 + next(3)) as ConnectionKind);
    await say(guest.socketPath, Buffer.concat([hello, ...parts]));
  }
  await using connection = await guest.open();
  await connection.ping();
  await eventually(() => assert.equal(readFileSync(`/proc/${guest.pid}/task/${guest.pid}/children`, "utf8"), ""));
});
