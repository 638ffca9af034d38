// Frames of HTTP/2 written by hand (RFC 9113, 4.1), for peers that do what no library lets them do.
export const frameType = {
  data: 0,
  headers: 1,
  rstStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const endStream = 1;
export const endHeaders = 4;

export const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

export function frame(type: number, flags: number, streamId: number, payload: Buffer | string = ""): Buffer {
  const content = Buffer.from(payload);
  const header = Buffer.alloc(9);
  header.writeUIntBE(content.length, 0, 3);
  header[3] = type;
  header[4] = flags;
  header.writeUInt32BE(streamId, 5);
  return Buffer.concat([header, content]);
}

export function settings(...entries: [id: number, value: number][]): Buffer {
  const payload = Buffer.alloc(entries.length * 6);
  for (const [at, [id, value]] of entries.entries()) {
    payload.writeUInt16BE(id, at * 6);
    payload.writeUInt32BE(value, at * 6 + 2);
  }
  return frame(frameType.settings, 0, 0, payload);
}

/** As literals without compression (RFC 7541, 6.2.2). */
export function fields(...pairs: [name: string, value: string][]): Buffer {
  const text = (content: string): Buffer => Buffer.concat([length(content.length), Buffer.from(content, "latin1")]);
  return Buffer.concat(pairs.flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]));
}

/** With a prefix of seven bits (RFC 7541, 5.1). */
function length(value: number): Buffer {
  if (value < 127) return Buffer.from([value]);
  const bytes = [127];
  let rest = value - 127;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}

export function number(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
