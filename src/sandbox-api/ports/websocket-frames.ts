// Where frames of a WebSocket begin and what kind they are (RFC 6455, 5.2): headers are read, payloads are passed over.

const opcodes = { close: 8, ping: 9, pong: 10 };
const controlPayloadMax = 125;
const headerMaxBytes = 14;

/** Follows one direction. What is not WebSocket makes no sense, but costs no more. */
export class FrameScanner {
  readonly #header = Buffer.alloc(headerMaxBytes);
  #headerBytes = 0;
  #isPayload = false;
  #payloadLeft = 0;
  #isCounted = false;

  /** Whether the next byte begins a frame. */
  get isAtBoundary(): boolean {
    return this.#headerBytes === 0 && !this.#isPayload;
  }

  /** Takes the next bytes; tells whether any of them belong to something else than a ping or a pong. */
  scan(bytes: Buffer): boolean {
    let isCounted = false;
    for (let at = 0; at < bytes.length; ) {
      if (!this.#isPayload) {
        this.#header[this.#headerBytes++] = bytes[at++]!;
        this.#readHeader();
      } else {
        const passed = Math.min(this.#payloadLeft, bytes.length - at);
        this.#payloadLeft -= passed;
        at += passed;
        if (this.#payloadLeft === 0) this.#isPayload = false;
      }
      if (this.#isCounted) isCounted = true;
    }
    return isCounted;
  }

  #readHeader(): void {
    const opcode = this.#header[0]! & 0x0f;
    this.#isCounted = opcode !== opcodes.ping && opcode !== opcodes.pong;
    if (this.#headerBytes < 2) return;
    const second = this.#header[1]!;
    const short = second & 0x7f;
    const lengthBytes = short === 127 ? 8 : short === 126 ? 2 : 0;
    const whole = 2 + lengthBytes + ((second & 0x80) === 0 ? 0 : 4);
    if (this.#headerBytes < whole) return;
    // Beyond what a double counts exactly no frame is ever finished.
    this.#payloadLeft =
      lengthBytes === 8
        ? Number(this.#header.readBigUInt64BE(2))
        : lengthBytes === 2
          ? this.#header.readUInt16BE(2)
          : short;
    this.#headerBytes = 0;
    this.#isPayload = this.#payloadLeft > 0;
  }
}

/** The payloads of bytes that are whole pings of a client and nothing else. */
export function readPings(bytes: Buffer): Buffer[] | undefined {
  const payloads: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = (bytes[at + 1] ?? 0) & 0x7f;
    const end = at + 6 + length;
    const isPing = bytes[at] === (0x80 | opcodes.ping) && (bytes[at + 1]! & 0x80) !== 0 && length <= controlPayloadMax;
    if (!isPing || end > bytes.length) return undefined;
    const mask = bytes.subarray(at + 2, at + 6);
    payloads.push(Buffer.from(bytes.subarray(at + 6, end).map((byte, index) => byte ^ mask[index & 3]!)));
    at = end;
  }
  return payloads.length === 0 ? undefined : payloads;
}

export function pongFrame(payload: Buffer): Buffer {
  return Buffer.concat([Buffer.from([0x80 | opcodes.pong, payload.length]), payload]);
}

/** `masked` for the server's ears: clients mask, with zeros where there is nothing to hide. */
export function closeFrame(code: number, reason: string, masked: boolean): Buffer {
  const payload = Buffer.concat([Buffer.from([code >> 8, code & 0xff]), Buffer.from(reason)]);
  const header = [0x80 | opcodes.close, payload.length | (masked ? 0x80 : 0)];
  return Buffer.concat([Buffer.from(header), Buffer.alloc(masked ? 4 : 0), payload]);
}
