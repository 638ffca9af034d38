// What the frames about single files and directories mean: encoding of the requests, decoding and checking of what a guest answers.
import { AppError } from "../../core/errors.ts";
import type { FileInfo, FileType } from "../../sandbox-api/machine.ts";
import { type Frame, FrameWriter, PayloadReader } from "./frames.ts";
import { GuestProtocolError } from "./guest-errors.ts";
import { checkedPath } from "./messages.ts";
import {
  entryNameBytesMax,
  frameHeaderBytes,
  frameType,
  nameBytesMax,
  ownerBytesMax,
  requestPayloadMax,
  sourcesMax,
} from "./protocol.ts";

export function encodeStat(path: string): Buffer {
  return new FrameWriter().text(checkedPath(path)).frame(frameType.stat, 0);
}

export function encodeList(path: string, entriesMax: number): Buffer {
  return new FrameWriter().u32(entriesMax).text(checkedPath(path)).frame(frameType.list, 0);
}

const toTheEnd = 0xffff_ffff_ffff_ffffn;

export function encodeRead(path: string, offset: number, length: number | undefined): Buffer {
  return new FrameWriter()
    .u64(offset)
    .u64(length ?? toTheEnd)
    .text(checkedPath(path))
    .frame(frameType.read, 0);
}

function putMode(writer: FrameWriter, mode: number | undefined): FrameWriter {
  return writer.u8(mode === undefined ? 0 : 1).u32((mode ?? 0) & 0o7777);
}

export function encodeWrite(path: string, mode: number | undefined): Buffer {
  return putMode(new FrameWriter(), mode).text(checkedPath(path)).frame(frameType.write, 0);
}

export function encodeSetMode(path: string, mode: number): Buffer {
  return putMode(new FrameWriter(), mode).text(checkedPath(path)).frame(frameType.setMode, 0);
}

export function encodeMakeDirectory(path: string, mode: number | undefined): Buffer {
  return putMode(new FrameWriter(), mode).text(checkedPath(path)).frame(frameType.makeDirectory, 0);
}

export function encodeRemove(path: string, recursive: boolean): Buffer {
  return new FrameWriter()
    .u8(recursive ? 1 : 0)
    .text(checkedPath(path))
    .frame(frameType.remove, 0);
}

export function encodeConcatenate(path: string, sources: readonly string[], mode: number | undefined): Buffer {
  if (sources.length > sourcesMax) throw new AppError("too_large", `At most ${sourcesMax} files can be joined.`);
  const writer = putMode(new FrameWriter(), mode).text(checkedPath(path)).u32(sources.length);
  for (const source of sources) writer.text(checkedPath(source));
  const frame = writer.frame(frameType.concatenate, 0);
  if (frame.length > requestPayloadMax + frameHeaderBytes) {
    throw new AppError("too_large", "The paths of the files to be joined are too long.");
  }
  return frame;
}

/** A type on the wire is its place here. */
export const fileTypes: readonly FileType[] = ["file", "directory", "symlink", "other"];

/** Without `nameMax` of a file that was named by its path, whose last segment is returned however long it is. */
function readAttributes(reader: PayloadReader, nameMax = nameBytesMax): FileInfo {
  const type = fileTypes[reader.u8()];
  const mode = reader.u32();
  if (type === undefined || mode > 0o7777) throw new GuestProtocolError("a file's attributes make no sense");
  const uid = reader.u32();
  const gid = reader.u32();
  const sizeBytes = reader.u64();
  const modifiedAtMs = reader.i64();
  const owner = reader.text(ownerBytesMax);
  const group = reader.text(ownerBytesMax);
  const name = reader.text(nameMax);
  return { name, type, sizeBytes, mode, uid, gid, owner, group, modifiedAtMs };
}

export function decodeAttributes(frame: Frame): FileInfo {
  const reader = new PayloadReader(frame.payload);
  const info = readAttributes(reader);
  reader.finish();
  return info;
}

export function decodeEntries(frame: Frame): FileInfo[] {
  const reader = new PayloadReader(frame.payload);
  const entries: FileInfo[] = [];
  while (reader.hasMore) entries.push(readAttributes(reader, entryNameBytesMax));
  return entries;
}

export function decodeBody(frame: Frame): { length: number; info: FileInfo } {
  const reader = new PayloadReader(frame.payload);
  const length = reader.u64();
  const info = readAttributes(reader);
  reader.finish();
  return { length, info };
}
