// What the frames about processes, connections and the init itself mean: encoding of what a host sends, decoding and checking of what a guest answers.
import { AppError } from "../../core/errors.ts";
import type { GuestProcess, OutputStream, ProcessEnd, SpawnRequest, TerminalSize } from "../../sandbox-api/machine.ts";
import { type Frame, FrameWriter, PayloadReader } from "./frames.ts";
import { GuestProtocolError } from "./guest-errors.ts";
import {
  argumentsMax,
  binaryPieceBytes,
  controlPayloadMax,
  frameHeaderBytes,
  frameType,
  hostBytesMax,
  operationBytesMax,
  outputBytesMax,
  pathBytesMax,
  tokenMax,
  versionBytesMax,
} from "./protocol.ts";

const tokenPattern = /^[a-z0-9]{1,32}$/;
const streamNumbers = { stdout: 1, stderr: 2 } as const;
const inputKinds = { pipe: 1, terminal: 2 } as const;
const terminalSizeMax = 65_535;

export function invalid(message: string, errno: string): AppError {
  return new AppError("unprocessable", message, { details: { errno } });
}

export function checkedText(text: string, what: string): string {
  if (text.includes("\0")) throw invalid(`${what} contains a zero character.`, "EINVAL");
  return text;
}

export function checkedPath(path: string): string {
  checkedText(path, "The path");
  if (!path.startsWith("/")) throw invalid("The path is not absolute.", "EINVAL");
  if (Buffer.byteLength(path) > pathBytesMax) throw invalid("The path is too long.", "ENAMETOOLONG");
  return path;
}

function checkedToken(token: string): string {
  if (!tokenPattern.test(token)) throw new AppError("internal", "A process token is not one.");
  return token;
}

function checkedSize({ columns, rows }: TerminalSize): TerminalSize {
  for (const value of [columns, rows]) {
    if (!Number.isInteger(value) || value < 1 || value > terminalSizeMax) {
      throw invalid(`A terminal has 1 to ${terminalSizeMax} columns and rows.`, "EINVAL");
    }
  }
  return { columns, rows };
}

/** Nothing for what reads /dev/null: an init of an earlier revision knows no more. */
function putInput(writer: FrameWriter, { stdin, terminal }: SpawnRequest): void {
  if (terminal !== undefined) {
    const { columns, rows } = checkedSize(terminal);
    writer.u8(inputKinds.terminal).u16(columns).u16(rows);
  } else if (stdin === "pipe") writer.u8(inputKinds.pipe);
}

export function encodeSpawn(number: number, request: SpawnRequest): Buffer {
  const { token, argv, workingDir, environment } = request;
  const variables = Object.entries(environment);
  if (argv.length === 0) throw invalid("The command is empty.", "EINVAL");
  if (argv.length > argumentsMax || variables.length > argumentsMax) {
    throw invalid("The arguments or environment variables are too many.", "E2BIG");
  }
  const writer = new FrameWriter().text(checkedToken(token)).text(checkedPath(workingDir)).u32(argv.length);
  for (const argument of argv) writer.text(checkedText(argument, "An argument"));
  writer.u32(variables.length);
  for (const [name, value] of variables) writer.text(checkedText(`${name}=${value}`, "An environment variable"));
  putInput(writer, request);
  const frame = writer.frame(frameType.spawn, number);
  if (frame.length > controlPayloadMax + frameHeaderBytes) {
    throw invalid("The arguments and environment are too long.", "E2BIG");
  }
  return frame;
}

export function encodeSignal(request: number, token: string, signal: number): Buffer {
  return new FrameWriter().u32(signal).text(checkedToken(token)).frame(frameType.signal, request);
}

export function encodeInput(request: number, token: string, offset: number, bytes: Buffer, last: boolean): Buffer {
  return new FrameWriter()
    .u64(offset)
    .u8(last ? 1 : 0)
    .text(checkedToken(token))
    .bytes(bytes)
    .frame(frameType.input, request);
}

export function encodeResize(request: number, token: string, size: TerminalSize): Buffer {
  const { columns, rows } = checkedSize(size);
  return new FrameWriter().u16(columns).u16(rows).text(checkedToken(token)).frame(frameType.resize, request);
}

/** The frames of a whole binary, then the request to take over with it. */
export function encodeUpgrade(request: number, binary: Buffer): Buffer {
  const frames: Buffer[] = [];
  for (let at = 0; at < binary.length; at += binaryPieceBytes) {
    const piece = binary.subarray(at, at + binaryPieceBytes);
    frames.push(new FrameWriter().u32(at).bytes(piece).frame(frameType.binary, 0));
  }
  return Buffer.concat([...frames, new FrameWriter().u32(binary.length).frame(frameType.upgrade, request)]);
}

/** So much of each stream may be unacknowledged on this connection from now on. */
export function encodeWindow(bytes: number): Buffer {
  return new FrameWriter().u32(bytes).frame(frameType.window, 0);
}

export function encodeAck(channel: number, stream: OutputStream, offset: number): Buffer {
  return new FrameWriter().u8(streamNumbers[stream]).u64(offset).frame(frameType.ack, channel);
}

/** A frame that consists of its type and channel. */
export function encodeEmpty(type: number, channel: number): Buffer {
  return new FrameWriter().frame(type, channel);
}

export function encodeConnect(port: number): Buffer {
  return new FrameWriter().u16(checkedPort(port)).frame(frameType.connect, 0);
}

/** `host` is a name or an address without brackets. */
export function encodeConnectTo(host: string, port: number): Buffer {
  if (!/^[a-zA-Z0-9._:-]+$/.test(host) || host.length > hostBytesMax) {
    throw new AppError("invalid_request", `A host is a name or an address of at most ${hostBytesMax} characters.`);
  }
  return new FrameWriter().u16(checkedPort(port)).text(host).frame(frameType.connectTo, 0);
}

function checkedPort(port: number): number {
  if (Number.isInteger(port) && port >= 1 && port <= 65_535) return port;
  throw new AppError("invalid_request", "A port is a number from 1 to 65535.");
}

export type ProcessMessage = GuestProcess & { acked: [number, number] };

function readEnd(kind: number, value: number): ProcessEnd | undefined {
  if (kind === 0 && value === 0) return undefined;
  if (kind === 1 && value <= 255) return { code: value };
  if (kind === 2 && value >= 1 && value <= 64) return { signal: value };
  throw new GuestProtocolError("an end of a process makes no sense");
}

function readPid(reader: PayloadReader): number {
  const pid = reader.u32();
  if (pid < 1 || pid > 0x7fff_ffff) throw new GuestProtocolError("a pid makes no sense");
  return pid;
}

export function decodeProcess(frame: Frame): ProcessMessage {
  const reader = new PayloadReader(frame.payload);
  const pid = readPid(reader);
  const acked: [number, number] = [reader.u64(), reader.u64()];
  const end = readEnd(reader.u8(), reader.u32());
  const token = reader.text(tokenMax);
  const stdin = reader.hasMore ? readInput(reader) : undefined;
  reader.finish();
  if (!tokenPattern.test(token)) throw new GuestProtocolError("a token makes no sense");
  return stdin === undefined ? { token, pid, acked, end } : { token, pid, acked, end, stdin };
}

function readInput(reader: PayloadReader): NonNullable<GuestProcess["stdin"]> {
  const kind = reader.u8();
  const open = reader.u8();
  if ((kind !== inputKinds.pipe && kind !== inputKinds.terminal) || open > 1) {
    throw new GuestProtocolError("a process' input makes no sense");
  }
  return { isTerminal: kind === inputKinds.terminal, isOpen: open === 1, taken: reader.u64() };
}

export type SpawnedMessage = { errno: number; step: string; pid: number; channel: number };

export function decodeSpawned(frame: Frame): SpawnedMessage {
  const reader = new PayloadReader(frame.payload);
  const errno = reader.u32();
  const pid = errno === 0 ? readPid(reader) : reader.u32();
  const channel = reader.u32();
  const step = readOperation(reader);
  reader.finish();
  return { errno, step, pid, channel };
}

export type TakenMessage = { errno: number; taken: number };

export function decodeTaken(frame: Frame): TakenMessage {
  const reader = new PayloadReader(frame.payload);
  const errno = reader.u32();
  const taken = reader.u64();
  reader.finish();
  return { errno, taken };
}

export type UpgradedMessage = { step: string; value: number; from: string; to: string; revision: number };

export function decodeUpgraded(frame: Frame): UpgradedMessage {
  const reader = new PayloadReader(frame.payload);
  const step = readOperation(reader);
  const value = reader.u32();
  const from = reader.text(versionBytesMax);
  const to = reader.text(versionBytesMax);
  const revision = reader.u8();
  reader.finish();
  if (!/^[a-z0-9]+$/.test(from) || !/^[a-z0-9]+$/.test(to)) throw new GuestProtocolError("a version makes no sense");
  return { step, value, from, to, revision };
}

/** The errno of an answer that has nothing else: signalled or resized. */
export function decodeErrno(frame: Frame): number {
  const reader = new PayloadReader(frame.payload);
  const errno = reader.u32();
  reader.finish();
  return errno;
}

export type OutputMessage = { stream: OutputStream; offset: number; bytes: Buffer };

export function decodeOutput(frame: Frame): OutputMessage {
  const reader = new PayloadReader(frame.payload);
  const number = reader.u8();
  if (number !== 1 && number !== 2) throw new GuestProtocolError("an output stream makes no sense");
  const offset = reader.u64();
  const bytes = reader.rest();
  if (bytes.length === 0) throw new GuestProtocolError("an output frame is empty");
  if (bytes.length > outputBytesMax) throw new GuestProtocolError("an output frame is too long");
  return { stream: number === 1 ? "stdout" : "stderr", offset, bytes };
}

export function decodeExit(frame: Frame): ProcessEnd {
  const reader = new PayloadReader(frame.payload);
  const end = readEnd(reader.u8(), reader.u32());
  reader.finish();
  if (end === undefined) throw new GuestProtocolError("an end of a process makes no sense");
  return end;
}

function readOperation(reader: PayloadReader): string {
  const operation = reader.text(operationBytesMax);
  if (!/^[a-z]*$/.test(operation)) throw new GuestProtocolError("an operation's name makes no sense");
  return operation;
}

export function decodeFailed(frame: Frame): { errno: number; operation: string } {
  const reader = new PayloadReader(frame.payload);
  const errno = reader.u32();
  const operation = readOperation(reader);
  reader.finish();
  return { errno, operation };
}
