// What the frames about whole trees and sockets mean: encoding of the requests, decoding and checking of what a guest answers.
import type { Change, ChangeKind, FoundEntry, SocketInfo, WalkOptions } from "../../sandbox-api/machine.ts";
import { fileTypes } from "./file-messages.ts";
import { type Frame, FrameWriter, PayloadReader } from "./frames.ts";
import { GuestProtocolError } from "./guest-errors.ts";
import { checkedPath, checkedText, invalid } from "./messages.ts";
import { entryNameBytesMax, excludedNamesMax, frameType, pathBytesMax } from "./protocol.ts";

const processNameBytesMax = 64;

export function encodeWalk(path: string, options: WalkOptions): Buffer {
  const { files, directories, skipHidden, excludeDirs, entriesMax } = options;
  if (excludeDirs.length > excludedNamesMax) throw invalid("The names to leave out are too many.", "E2BIG");
  const flags = (files ? 1 : 0) | (directories ? 2 : 0) | (skipHidden ? 4 : 0);
  const writer = new FrameWriter().u8(flags).u32(entriesMax).u32(excludeDirs.length);
  for (const name of excludeDirs) {
    if (Buffer.byteLength(checkedText(name, "A name")) > entryNameBytesMax)
      throw invalid("A name is too long.", "ENAMETOOLONG");
    writer.text(name);
  }
  return writer.text(checkedPath(path)).frame(frameType.walk, 0);
}

export function encodeWatch(path: string, recursive: boolean): Buffer {
  return new FrameWriter()
    .u8(recursive ? 1 : 0)
    .text(checkedPath(path))
    .frame(frameType.watch, 0);
}

/** 0 stands for every process. */
export function encodeSockets(pid: number): Buffer {
  return new FrameWriter().u32(pid).frame(frameType.sockets, 0);
}

export function decodeFound(frame: Frame): FoundEntry[] {
  // An empty one says that the walk goes on.
  const reader = new PayloadReader(frame.payload);
  const found: FoundEntry[] = [];
  while (reader.hasMore) {
    const type = fileTypes[reader.u8()];
    if (type === undefined) throw new GuestProtocolError("a file's type makes no sense");
    found.push({ type, path: readRelative(reader) });
  }
  return found;
}

const changeKinds: readonly (ChangeKind | undefined)[] = [
  undefined,
  "create",
  "write",
  "remove",
  "rename",
  "chmod",
  "overflow",
];

export function decodeChanges(frame: Frame): Change[] {
  const reader = readItems(frame);
  const changes: Change[] = [];
  while (reader.hasMore) {
    const kind = changeKinds[reader.u8()];
    const type = reader.u8();
    if (kind === undefined || type > 1) throw new GuestProtocolError("a change makes no sense");
    changes.push({ kind, isDirectory: type === 1, path: readRelative(reader) });
  }
  return changes;
}

/** At least one item a frame: what is counted by items could go on for ever without. */
function readItems({ payload }: Frame): PayloadReader {
  if (payload.length === 0) throw new GuestProtocolError("a list has an empty frame");
  return new PayloadReader(payload);
}

/** A path that stays below where it begins, as the guest promises. */
function readRelative(reader: PayloadReader): string {
  const path = reader.text(pathBytesMax);
  if (path.startsWith("/") || path.split("/").includes("..")) throw new GuestProtocolError("a path leads elsewhere");
  return path;
}

/** The kernel's numbers, from 1. */
const socketStates = [
  "",
  "ESTABLISHED",
  "SYN_SENT",
  "SYN_RECV",
  "FIN_WAIT1",
  "FIN_WAIT2",
  "TIME_WAIT",
  "CLOSE",
  "CLOSE_WAIT",
  "LAST_ACK",
  "LISTEN",
  "CLOSING",
  "NEW_SYN_RECV",
];

export function decodeSockets(frame: Frame): SocketInfo[] {
  const reader = readItems(frame);
  const sockets: SocketInfo[] = [];
  while (reader.hasMore) sockets.push(readSocket(reader));
  return sockets;
}

function readSocket(reader: PayloadReader): SocketInfo {
  const pid = reader.u32();
  const protocol = reader.u8();
  const family = reader.u8();
  const state = socketStates[reader.u8()];
  if (protocol < 1 || protocol > 2 || (family !== 4 && family !== 6) || !state || pid > 0x7fff_ffff) {
    throw new GuestProtocolError("a socket makes no sense");
  }
  const local = readAddress(reader, family);
  const remote = readAddress(reader, family);
  const processName = reader.text(processNameBytesMax);
  return {
    pid: pid === 0 ? undefined : pid,
    processName,
    protocol: protocol === 1 ? "tcp" : "udp",
    state,
    localAddress: local.address,
    localPort: local.port,
    remoteAddress: remote.address,
    remotePort: remote.port,
  };
}

function readAddress(reader: PayloadReader, family: 4 | 6): { address: string; port: number } {
  const bytes = Array.from({ length: 16 }, () => reader.u8());
  const port = reader.u32();
  if (port > 65_535) throw new GuestProtocolError("a port makes no sense");
  return { address: family === 4 ? bytes.slice(0, 4).join(".") : formatIpv6(bytes), port };
}

function formatIpv6(bytes: readonly number[]): string {
  const groups = Array.from({ length: 8 }, (_, index) =>
    ((bytes[2 * index]! << 8) | bytes[2 * index + 1]!).toString(16),
  );
  // The URL parser writes the shortest form.
  return new URL(`http://[${groups.join(":")}]/`).hostname.slice(1, -1);
}
