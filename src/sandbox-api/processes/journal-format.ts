// The bytes of an output journal on disk: segment files of records, each record a piece of one stream with its offset.
import type { OutputStream } from "../machine.ts";

/*
 * segment: header, record, record, ...            all numbers little endian
 * header:  "catnapJ1" (8)  stdout offset (8)  stderr offset (8): where each stream stood when the segment began
 * record:  stream 1|2 (4)  length (4)  offset of its first byte in the stream (8)  bytes (length)
 *
 * Offsets make missing bytes visible: what was rotated away shows as a jump.
 */
const magic = Buffer.from("catnapJ1", "latin1");
export const segmentHeaderBytes = 24;
export const recordHeaderBytes = 16;
/** Longer output is split into several records, so that a reader's buffer has a bound. */
export const recordMaxBytes = 64 * 1024;

export type StreamOffsets = Record<OutputStream, number>;
export type JournalPiece = { stream: OutputStream; offset: number; data: Buffer };

export function encodeSegmentHeader({ stdout, stderr }: StreamOffsets): Buffer {
  const header = Buffer.alloc(segmentHeaderBytes);
  magic.copy(header);
  header.writeBigUInt64LE(BigInt(stdout), 8);
  header.writeBigUInt64LE(BigInt(stderr), 16);
  return header;
}

export function decodeSegmentHeader(bytes: Buffer): StreamOffsets | undefined {
  if (bytes.length < segmentHeaderBytes || !bytes.subarray(0, 8).equals(magic)) return undefined;
  return { stdout: Number(bytes.readBigUInt64LE(8)), stderr: Number(bytes.readBigUInt64LE(16)) };
}

export function encodeRecordHeader(stream: OutputStream, length: number, offset: number): Buffer {
  const header = Buffer.allocUnsafe(recordHeaderBytes);
  header.writeUInt32LE(stream === "stdout" ? 1 : 2, 0);
  header.writeUInt32LE(length, 4);
  header.writeBigUInt64LE(BigInt(offset), 8);
  return header;
}

/** The complete records at the beginning of `bytes` and how many bytes they take; stops at a torn or impossible record. */
export function decodeRecords(bytes: Buffer): { pieces: JournalPiece[]; consumedBytes: number } {
  const pieces: JournalPiece[] = [];
  let position = 0;
  while (position + recordHeaderBytes <= bytes.length) {
    const kind = bytes.readUInt32LE(position);
    const length = bytes.readUInt32LE(position + 4);
    const begin = position + recordHeaderBytes;
    if ((kind !== 1 && kind !== 2) || length === 0 || length > recordMaxBytes || begin + length > bytes.length) break;
    pieces.push({
      stream: kind === 1 ? "stdout" : "stderr",
      offset: Number(bytes.readBigUInt64LE(position + 8)),
      data: bytes.subarray(begin, begin + length),
    });
    position = begin + length;
  }
  return { pieces, consumedBytes: position };
}
