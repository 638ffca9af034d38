// Text rewritten as bytes, a word at a time where nothing stands out: making strings of output costs several times as much.

const backslash = 0x5c;
const newline = 10;
const hexDigits = Buffer.from("0123456789abcdef", "latin1");
/** Of every byte: 0 when JSON has it as it is, the letter after the backslash, or 1 when it is written as a number. */
const jsonEscapes = new Uint8Array(256).fill(1, 0, 0x20);
for (const [character, letter] of ['""', "\\\\", "\bb", "\tt", "\nn", "\ff", "\rr"]) {
  jsonEscapes[character!.charCodeAt(0)] = letter!.charCodeAt(0);
}

/** Room that `escapeJson` needs for so many bytes. */
export function escapedMaxBytes(length: number): number {
  return length * 6;
}

/** Writes UTF-8 as it stands between the quotes of a JSON string, from `at` on; returns the place after it. */
export function escapeJson(text: Buffer, out: Buffer, at: number): number {
  const words = new DataView(text.buffer, text.byteOffset, text.length);
  const outWords = new DataView(out.buffer, out.byteOffset, out.length);
  let next = at;
  let index = 0;
  for (const end = text.length - 3; index < end; index += 4) {
    const word = words.getInt32(index, true);
    // The high bit of a byte is set where it is below a space, a quote or a backslash; those of other characters are left out.
    const found = (word - 0x20202020) | ((word ^ 0x22222222) - 0x01010101) | ((word ^ 0x5c5c5c5c) - 0x01010101);
    if ((found & ~word & 0x80808080) === 0) {
      outWords.setInt32(next, word, true);
      next += 4;
      continue;
    }
    next = escapeByte(word & 0xff, out, next);
    next = escapeByte((word >>> 8) & 0xff, out, next);
    next = escapeByte((word >>> 16) & 0xff, out, next);
    next = escapeByte(word >>> 24, out, next);
  }
  for (; index < text.length; index += 1) next = escapeByte(text[index]!, out, next);
  return next;
}

function escapeByte(byte: number, out: Buffer, at: number): number {
  const letter = jsonEscapes[byte]!;
  if (letter === 0) {
    out[at] = byte;
    return at + 1;
  }
  out[at] = backslash;
  if (letter !== 1) {
    out[at + 1] = letter;
    return at + 2;
  }
  out[at + 1] = 0x75;
  out[at + 2] = out[at + 3] = 0x30;
  out[at + 4] = hexDigits[byte >> 4]!;
  out[at + 5] = hexDigits[byte & 15]!;
  return at + 6;
}

/** Room that `prefixLines` needs for so many bytes. */
export function prefixedMaxBytes(length: number, prefix: Buffer): number {
  return length * (prefix.length + 1) + prefix.length;
}

/** Writes the text with a prefix before the first byte of every line, the first line only when it begins here; returns the place after it. */
export function prefixLines(
  text: Buffer,
  { prefix, begins }: { prefix: Buffer; begins: boolean },
  out: Buffer,
  at: number,
): number {
  const words = new DataView(text.buffer, text.byteOffset, text.length);
  const outWords = new DataView(out.buffer, out.byteOffset, out.length);
  let next = at;
  let isBegin = begins;
  for (let index = 0; index < text.length; ) {
    if (isBegin) for (let byte = 0; byte < prefix.length; byte += 1) out[next++] = prefix[byte]!;
    isBegin = false;
    for (const end = text.length - 3; index < end; index += 4) {
      const word = words.getInt32(index, true);
      const other = word ^ 0x0a0a0a0a;
      // A newline's byte has become 0.
      if (((other - 0x01010101) & ~other & 0x80808080) !== 0) break;
      outWords.setInt32(next, word, true);
      next += 4;
    }
    while (index < text.length && !isBegin) {
      const byte = text[index++]!;
      out[next++] = byte;
      isBegin = byte === newline;
    }
  }
  return next;
}
