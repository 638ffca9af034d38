// Frames: cutting them out of a byte stream whose pieces have any size, and putting them together. Bounded, because a guest is hostile.
import { GuestProtocolError } from "./guest-errors.ts";
import { type ConnectionKind, frameHeaderBytes, helloBytes, protocolVersion } from "./protocol.ts";

export type Frame = { type: number; channel: number; payload: Buffer };

const magic = Buffer.from("CATN", "latin1");

export function encodeHello(kind: ConnectionKind): Buffer {
  return Buffer.from([...magic, protocolVersion, 0, kind, 0]);
}

/** The init's revision; throws unless the bytes are this version's answer to a hello of this kind. */
export function checkHello(hello: Buffer, kind: ConnectionKind): number {
  if (hello.length !== helloBytes || !hello.subarray(0, 4).equals(magic)) {
    throw new GuestProtocolError("what listens there is not a guest");
  }
  const version = hello.readUInt16LE(4);
  if (version !== protocolVersion) {
    throw new GuestProtocolError(`the guest speaks version ${version} of the protocol, this host ${protocolVersion}`);
  }
  if (hello[6] !== kind) throw new GuestProtocolError("the guest's hello is not the one asked for");
  return hello[7]!;
}

/** Cuts a stream into frames. A payload points into the pushed piece when it lies in one, so it is to be used or copied at once. */
export class FrameReader {
  readonly #payloadMax: number;
  #piece: Buffer = Buffer.alloc(0);
  #at = 0;
  readonly #header = Buffer.alloc(frameHeaderBytes);
  #headerFilled = 0;
  /** A payload that is spread over pieces. */
  #payload: Buffer | undefined;
  #payloadFilled = 0;

  constructor(payloadMax: number) {
    this.#payloadMax = payloadMax;
  }

  /** Adds a piece; `next` has to have returned undefined since the one before. */
  push(piece: Buffer): void {
    this.#piece = this.#at === this.#piece.length ? piece : Buffer.concat([this.#piece.subarray(this.#at), piece]);
    this.#at = 0;
  }

  next(): Frame | undefined {
    if (!this.#takeHeader()) return undefined;
    const length = this.#header.readUInt32LE(0);
    if (length > this.#payloadMax) throw new GuestProtocolError(`a frame of ${length} bytes is too long`);
    const payload = this.#takePayload(length);
    if (payload === undefined) return undefined;
    this.#headerFilled = 0;
    return { type: this.#header.readUInt8(4), channel: this.#header.readUInt32LE(5), payload };
  }

  /** Exactly `length` bytes that are not a frame, before the first one; undefined until they are there. */
  takeBytes(length: number): Buffer | undefined {
    if (this.#piece.length - this.#at < length) return undefined;
    this.#at += length;
    return this.#piece.subarray(this.#at - length, this.#at);
  }

  /** The bytes after the last frame, for protocols that go on without frames. */
  takeRest(): Buffer {
    const rest = this.#piece.subarray(this.#at);
    this.#at = this.#piece.length;
    return rest;
  }

  #takeHeader(): boolean {
    const copied = this.#piece.copy(this.#header, this.#headerFilled, this.#at);
    this.#headerFilled += copied;
    this.#at += copied;
    return this.#headerFilled === frameHeaderBytes;
  }

  #takePayload(length: number): Buffer | undefined {
    const available = this.#piece.length - this.#at;
    if (this.#payload === undefined && available >= length) {
      this.#at += length;
      return this.#piece.subarray(this.#at - length, this.#at);
    }
    this.#payload ??= Buffer.allocUnsafeSlow(length);
    const copied = this.#piece.copy(this.#payload, this.#payloadFilled, this.#at);
    this.#payloadFilled += copied;
    this.#at += copied;
    if (this.#payloadFilled < length) return undefined;
    const payload = this.#payload;
    this.#payload = undefined;
    this.#payloadFilled = 0;
    return payload;
  }
}

/** Reads the fields of a payload; a step beyond its end throws. */
export class PayloadReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  #step(length: number): number {
    if (this.#bytes.length - this.#at < length) throw new GuestProtocolError("a frame is too short");
    this.#at += length;
    return this.#at - length;
  }

  u8(): number {
    return this.#bytes.readUInt8(this.#step(1));
  }

  u32(): number {
    return this.#bytes.readUInt32LE(this.#step(4));
  }

  u64(): number {
    const value = Number(this.#bytes.readBigUInt64LE(this.#step(8)));
    if (!Number.isSafeInteger(value)) throw new GuestProtocolError("a number is too large");
    return value;
  }

  i64(): number {
    const value = Number(this.#bytes.readBigInt64LE(this.#step(8)));
    if (!Number.isSafeInteger(value)) throw new GuestProtocolError("a number is too large");
    return value;
  }

  text(bytesMax: number): string {
    const length = this.u32();
    if (length > bytesMax) throw new GuestProtocolError("a text is too long");
    const at = this.#step(length + 1);
    if (this.#bytes[at + length] !== 0) throw new GuestProtocolError("a text does not end with a zero");
    return this.#bytes.toString("utf8", at, at + length);
  }

  rest(): Buffer {
    const rest = this.#bytes.subarray(this.#at);
    this.#at = this.#bytes.length;
    return rest;
  }

  get hasMore(): boolean {
    return this.#at < this.#bytes.length;
  }

  finish(): void {
    if (this.hasMore) throw new GuestProtocolError("a frame is too long for its type");
  }
}

/** Composes one frame in a buffer that grows. */
export class FrameWriter {
  #bytes: Buffer = Buffer.allocUnsafe(256);
  #length = frameHeaderBytes;

  /** Makes room first: the buffer may be another one afterwards. */
  #step(length: number): number {
    if (this.#bytes.length - this.#length < length) {
      const grown = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#length + length));
      this.#bytes.copy(grown, 0, 0, this.#length);
      this.#bytes = grown;
    }
    this.#length += length;
    return this.#length - length;
  }

  u8(value: number): this {
    const at = this.#step(1);
    this.#bytes.writeUInt8(value, at);
    return this;
  }

  u16(value: number): this {
    const at = this.#step(2);
    this.#bytes.writeUInt16LE(value, at);
    return this;
  }

  u32(value: number): this {
    const at = this.#step(4);
    this.#bytes.writeUInt32LE(value, at);
    return this;
  }

  u64(value: number | bigint): this {
    const at = this.#step(8);
    this.#bytes.writeBigUInt64LE(BigInt(value), at);
    return this;
  }

  bytes(bytes: Buffer): this {
    const at = this.#step(bytes.length);
    bytes.copy(this.#bytes, at);
    return this;
  }

  /** The text must not contain a zero character. */
  text(text: string): this {
    const length = Buffer.byteLength(text);
    const at = this.u32(length).#step(length + 1);
    this.#bytes.write(text, at, length, "utf8");
    this.#bytes[at + length] = 0;
    return this;
  }

  frame(type: number, channel: number): Buffer {
    this.#bytes.writeUInt32LE(this.#length - frameHeaderBytes, 0);
    this.#bytes.writeUInt8(type, 4);
    this.#bytes.writeUInt32LE(channel, 5);
    return this.#bytes.subarray(0, this.#length);
  }
}

/** The header of a frame whose payload is sent separately. */
export function frameHeader(type: number, channel: number, payloadBytes: number): Buffer {
  const header = Buffer.allocUnsafe(frameHeaderBytes);
  header.writeUInt32LE(payloadBytes, 0);
  header.writeUInt8(type, 4);
  header.writeUInt32LE(channel, 5);
  return header;
}
