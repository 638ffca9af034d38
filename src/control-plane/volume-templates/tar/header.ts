// Reads one 512-byte header of a tar archive (POSIX ustar or GNU), and refuses what is not exactly one.

import { TarRefusal } from "./refusal.ts";
import { decodeText } from "./text.ts";

export const blockBytes = 512;

export type TarHeader = {
  /** As the archive says it, prefix included. */
  name: string;
  type: string;
  sizeBytes: number;
};

const magics: Readonly<Record<string, "posix" | "gnu">> = { "ustar\x0000": "posix", "ustar  \0": "gnu" };

export function readHeader(block: Buffer, entry: number): TarHeader {
  const where = `header ${entry} of the archive`;
  if (readNumber(block, 148, 8, "checksum", where) !== sumOf(block)) {
    throw new TarRefusal(`${where} has a wrong checksum`);
  }
  const form = magics[block.toString("latin1", 257, 265)];
  if (form === undefined) throw new TarRefusal(`${where} is neither in the ustar nor in the GNU format`);
  for (const [what, at, length] of numbers) readNumber(block, at, length, what, where);
  // In the GNU format other fields lie where ustar has the prefix.
  const prefix = form === "posix" ? textAt(block, 345, 155, where) : "";
  const name = textAt(block, 0, 100, where);
  return {
    name: prefix === "" ? name : `${prefix}/${name}`,
    type: block.toString("latin1", 156, 157),
    sizeBytes: readNumber(block, 124, 12, "size", where),
  };
}

/** Fields nobody here needs, but whoever unpacks the archive reads. */
const numbers: readonly [string, number, number][] = [
  ["mode", 100, 8],
  ["uid", 108, 8],
  ["gid", 116, 8],
  ["mtime", 136, 12],
];

/** The checksum's own field counts as spaces. */
function sumOf(block: Buffer): number {
  let sum = 8 * 0x20;
  for (let at = 0; at < 148; at++) sum += block[at]!;
  for (let at = 156; at < blockBytes; at++) sum += block[at]!;
  return sum;
}

function textAt(block: Buffer, at: number, length: number, where: string): string {
  const field = block.subarray(at, at + length);
  const end = field.indexOf(0);
  return decodeText(end < 0 ? field : field.subarray(0, end), `a name in ${where}`);
}

/** Octal digits between spaces and NULs, or a positive number in base 256. */
function readNumber(block: Buffer, at: number, length: number, what: string, where: string): number {
  const field = block.subarray(at, at + length);
  if (field[0] === 0x80) return readBinary(field.subarray(1), what, where);
  const match = /^ *([0-7]*)[ \0]*$/.exec(field.toString("latin1"));
  // A time before 1970 harms nobody.
  if (match === null && what === "mtime" && field[0] === 0xff) return 0;
  const value = match === null ? Number.NaN : Number.parseInt(match[1] || "0", 8);
  if (Number.isSafeInteger(value)) return value;
  throw new TarRefusal(`the ${what} in ${where} is not a number`);
}

function readBinary(digits: Buffer, what: string, where: string): number {
  let value = 0;
  for (const digit of digits) {
    value = value * 256 + digit;
    if (!Number.isSafeInteger(value)) throw new TarRefusal(`the ${what} in ${where} is out of range`);
  }
  return value;
}
