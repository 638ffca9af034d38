// The bytes of the protocol: what test/guest/vectors.json says is what both sides write and understand.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import * as fileMessages from "../../src/host/guest/file-messages.ts";
import { encodeHello, type Frame, FrameReader, frameHeader } from "../../src/host/guest/frames.ts";
import { GuestProtocolError } from "../../src/host/guest/guest-errors.ts";
import * as messages from "../../src/host/guest/messages.ts";
import { frameType } from "../../src/host/guest/protocol.ts";
import * as treeMessages from "../../src/host/guest/tree-messages.ts";
import { buildGuest } from "./start-guest.ts";

type Value = Record<string, unknown>;
type Vector = { name: string; hex: string; value: Value };
type Vectors = Record<"hostToGuest" | "guestToHost", Vector[]> &
  Record<"invalidForGuest" | "invalidForHost", Omit<Vector, "value">[]>;

const vectors = JSON.parse(readFileSync(join(import.meta.dirname, "vectors.json"), "utf8")) as Vectors;
const program = buildGuest("vectors");

function decodeByGuest(frames: { hex: string }[]): Value[] {
  const input = frames.map(({ hex }) => `${hex}\n`).join("");
  const output = execFileSync(program, ["decode"], { input, encoding: "utf8" });
  return output
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Value);
}

function encodeSpawn(value: Value): Buffer {
  const { token, workingDir, argv, environment } = value as Record<string, string & string[]>;
  const { stdin, terminal } = value as { stdin?: "pipe"; terminal?: { columns: number; rows: number } };
  const variables = Object.fromEntries(environment!.map((variable: string) => variable.split("=")));
  return messages.encodeSpawn(value.channel as number, {
    token: token!,
    workingDir: workingDir!,
    argv: argv!,
    environment: variables,
    ...(stdin && { stdin }),
    ...(terminal && { terminal }),
  });
}

/** Encodes a vector's value the way the host does. */
function encodeByHost(value: Value): Buffer {
  const { channel, path, mode } = value as { channel: number; path: string; mode: number | undefined };
  if ("kind" in value) return encodeHello(value.kind as 1 | 2 | 3);
  switch (value.type) {
    case frameType.spawn:
      return encodeSpawn(value);
    case frameType.signal:
      return messages.encodeSignal(channel, value.token as string, value.signal as number);
    case frameType.window:
      return messages.encodeWindow(value.bytes as number);
    case frameType.ack:
      return messages.encodeAck(channel, value.stream === 1 ? "stdout" : "stderr", value.offset as number);
    case frameType.input: {
      const { token, offset, bytes, last } = value as { token: string; offset: number; bytes: string; last: boolean };
      return messages.encodeInput(channel, token, offset, Buffer.from(bytes), last);
    }
    case frameType.resize: {
      const { token, columns, rows } = value as { token: string; columns: number; rows: number };
      return messages.encodeResize(channel, token, { columns, rows });
    }
    case frameType.binary:
      return messages.encodeUpgrade(0, Buffer.from(value.bytes as string)).subarray(0, 17);
    case frameType.upgrade:
      return messages.encodeUpgrade(channel, Buffer.alloc(value.size as number)).subarray(17);
    case frameType.setMode:
      return fileMessages.encodeSetMode(path, mode!);
    case frameType.stat:
      return fileMessages.encodeStat(path);
    case frameType.list:
      return fileMessages.encodeList(path, value.entriesMax as number);
    case frameType.read:
      return fileMessages.encodeRead(path, value.offset as number, value.length as number | undefined);
    case frameType.write:
      return fileMessages.encodeWrite(path, mode);
    case frameType.data: {
      const bytes = Buffer.from(value.bytes as string);
      return Buffer.concat([frameHeader(frameType.data, 0, bytes.length), bytes]);
    }
    case frameType.makeDirectory:
      return fileMessages.encodeMakeDirectory(path, mode);
    case frameType.remove:
      return fileMessages.encodeRemove(path, value.recursive as boolean);
    case frameType.concatenate:
      return fileMessages.encodeConcatenate(path, value.sources as string[], mode);
    case frameType.walk: {
      const { flags, entriesMax, excludeDirs } = value as { flags: number; entriesMax: number; excludeDirs: string[] };
      const options = { files: (flags & 1) > 0, directories: (flags & 2) > 0, skipHidden: (flags & 4) > 0 };
      return treeMessages.encodeWalk(path, { ...options, entriesMax, excludeDirs });
    }
    case frameType.watch:
      return treeMessages.encodeWatch(path, value.recursive as boolean);
    case frameType.sockets:
      return treeMessages.encodeSockets(value.pid as number);
    case frameType.connect:
      return messages.encodeConnect(value.port as number);
    case frameType.connectTo:
      return messages.encodeConnectTo(value.host as string, value.port as number);
    default:
      return messages.encodeEmpty(value.type as number, channel);
  }
}

function decodeByHost(frame: Frame): Value {
  const head = { type: frame.type, channel: frame.channel };
  switch (frame.type) {
    case frameType.process:
      return { ...head, ...messages.decodeProcess(frame) };
    case frameType.spawned: {
      const { channel: process, ...rest } = messages.decodeSpawned(frame);
      return { ...head, ...rest, process };
    }
    case frameType.signalled:
    case frameType.resized:
      return { ...head, errno: messages.decodeErrno(frame) };
    case frameType.upgraded:
      return { ...head, ...messages.decodeUpgraded(frame) };
    case frameType.taken:
      return { ...head, ...messages.decodeTaken(frame) };
    case frameType.output: {
      const { bytes, ...rest } = messages.decodeOutput(frame);
      return { ...head, ...rest, bytes: bytes.toString() };
    }
    case frameType.exit:
      return { ...head, end: messages.decodeExit(frame) };
    case frameType.attributes:
      return { ...head, info: fileMessages.decodeAttributes(frame) };
    case frameType.entries:
      return { ...head, entries: fileMessages.decodeEntries(frame) };
    case frameType.body:
      return { ...head, ...fileMessages.decodeBody(frame) };
    case frameType.found:
      return { ...head, found: treeMessages.decodeFound(frame) };
    case frameType.changes:
      return { ...head, changes: treeMessages.decodeChanges(frame) };
    case frameType.socketList:
      return { ...head, sockets: JSON.parse(JSON.stringify(treeMessages.decodeSockets(frame))) };
    case frameType.failed:
      return { ...head, ...messages.decodeFailed(frame) };
    default:
      assert.equal(frame.payload.length, 0);
      return head;
  }
}

function framesOf(hex: string, pieceBytes = 1_000): Frame[] {
  const bytes = Buffer.from(hex, "hex");
  const reader = new FrameReader(1_000);
  const frames: Frame[] = [];
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    reader.push(Buffer.from(bytes.subarray(at, at + pieceBytes)));
    for (let frame = reader.next(); frame !== undefined; frame = reader.next()) frames.push(frame);
  }
  return frames;
}

test("the host writes what the vectors say", () => {
  for (const { name, hex, value } of vectors.hostToGuest) assert.equal(encodeByHost(value).toString("hex"), hex, name);
});

test("the guest understands what the host writes", () => {
  const decoded = decodeByGuest(vectors.hostToGuest);
  assert.deepEqual(
    decoded,
    vectors.hostToGuest.map(({ value }) => value),
  );
});

test("the guest writes what the vectors say", () => {
  const lines = execFileSync(program, ["encode"], { encoding: "utf8" }).trim().split("\n");
  assert.deepEqual(
    lines,
    vectors.guestToHost.map(({ name, hex }) => `${name} ${hex}`),
  );
});

test("the host understands what the guest writes", () => {
  for (const { name, hex, value } of vectors.guestToHost.filter(({ value }) => !("kind" in value))) {
    const [frame] = framesOf(hex);
    const { end, ...rest } = decodeByHost(frame!);
    assert.deepEqual(end === undefined ? rest : { ...rest, end }, value, name);
  }
});

test("the guest refuses malformed frames", () => {
  const decoded = decodeByGuest(vectors.invalidForGuest);
  for (const [index, { name }] of vectors.invalidForGuest.entries()) assert.equal(decoded[index]?.invalid, true, name);
});

test("the host refuses malformed frames", () => {
  for (const { name, hex } of vectors.invalidForHost) {
    assert.throws(() => decodeByHost(framesOf(hex)[0]!), GuestProtocolError, name);
  }
});

test("frames are the same however the stream is cut into pieces", () => {
  const frames = vectors.guestToHost.filter(({ value }) => !("kind" in value));
  const stream = frames.map(({ hex }) => hex).join("");
  const whole = framesOf(stream, stream.length);
  assert.equal(whole.length, frames.length);
  for (const pieceBytes of [1, 2, 3, 7, 8, 9, 10, 64]) assert.deepEqual(framesOf(stream, pieceBytes), whole);
});

test("a frame longer than allowed is refused by its header alone", () => {
  const reader = new FrameReader(1_000);
  reader.push(frameHeader(frameType.output, 1, 1_001));
  assert.throws(() => reader.next(), GuestProtocolError);
});
