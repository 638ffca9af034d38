// Checks a tar archive while it passes by: what it accepts unpacks to plain files and directories inside one directory, whoever unpacks it.
// Holds one header, one bounded extension and the tree of names, never content.
import { blockBytes, readHeader, type TarHeader } from "./header.ts";
import { type PaxRecords, readPax } from "./pax.ts";
import { showName, TarRefusal } from "./refusal.ts";
import { decodeText } from "./text.ts";
import { TarTree } from "./tree.ts";

const extensionMaxBytes = 65_536;
/** Of a global pax header and the two that may stand before one entry. */
const extensionsInRowMax = 4;
/** Writers fill their last record with zeros. */
const paddingMaxBytes = 4 * 1024 * 1024;

/** What an entry is that is neither a file nor a directory. */
const refusedTypes: Readonly<Record<string, string>> = {
  "1": "a hard link",
  "2": "a symbolic link",
  "3": "a character device",
  "4": "a block device",
  "6": "a fifo",
  "7": "a contiguous file",
  D: "an incremental dump",
  K: "a link with a long target",
  M: "a part of a file of another archive",
  S: "a sparse file",
  V: "a volume label",
};

const compressions: readonly [string, Buffer][] = [
  ["gzip", Buffer.from([0x1f, 0x8b])],
  ["zstd", Buffer.from([0x28, 0xb5, 0x2f, 0xfd])],
  ["bzip2", Buffer.from("BZh")],
  ["xz", Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00])],
  ["zip", Buffer.from("PK\x03\x04")],
];

export type TarCheckOptions = {
  /** Files and directories, those that are only implied included. */
  entriesMax: number;
};

export class TarCheck {
  readonly #tree: TarTree;
  readonly #block = Buffer.alloc(blockBytes);
  #filled = 0;
  #headers = 0;
  /** Bytes of content and of its padding that are still to pass. */
  #skip = 0;
  /** An extension whose body is being collected. */
  #extension: { type: string; body: Buffer; filled: number } | undefined;
  #extensionsInRow = 0;
  #pax: PaxRecords | undefined;
  #longName: string | undefined;
  /** Blocks of zeros so far; two end the archive. */
  #zeroBlocks = 0;
  #paddingBytes = 0;

  constructor({ entriesMax }: TarCheckOptions) {
    this.#tree = new TarTree(entriesMax);
  }

  /** Throws TarRefusal, after which nothing may be written any more. */
  write(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.#zeroBlocks === 2) return this.#pad(chunk.subarray(at));
      if (this.#skip > 0) {
        const passed = Math.min(this.#skip, chunk.length - at);
        this.#skip -= passed;
        at += passed;
        continue;
      }
      const taken = Math.min(blockBytes - this.#filled, chunk.length - at);
      chunk.copy(this.#block, this.#filled, at, at + taken);
      this.#filled += taken;
      at += taken;
      if (this.#filled < blockBytes) continue;
      this.#filled = 0;
      if (this.#extension !== undefined) this.#collect(this.#extension);
      else this.#readBlock();
    }
  }

  /** Throws TarRefusal unless what was written is a whole archive. */
  end(): void {
    if (this.#zeroBlocks === 2) return;
    if (this.#headers > 0) throw new TarRefusal("the archive is cut off: its end is missing");
    refuseCompressed(this.#block.subarray(0, this.#filled));
    throw new TarRefusal(this.#filled === 0 ? "the archive is empty" : "this is no tar archive: it is too short");
  }

  #readBlock(): void {
    if (isZero(this.#block)) {
      if (this.#pax !== undefined || this.#longName !== undefined) {
        throw new TarRefusal("an extended header at the archive's end belongs to no entry");
      }
      this.#zeroBlocks++;
      this.#headers++;
      return;
    }
    if (this.#zeroBlocks > 0) throw new TarRefusal("something follows the end of the archive");
    this.#headers++;
    const header = this.#readHeader();
    if (header.type === "x" || header.type === "g" || header.type === "L") this.#beginExtension(header);
    else this.#addEntry(header);
  }

  #readHeader(): TarHeader {
    try {
      return readHeader(this.#block, this.#headers);
    } catch (refusal) {
      // A file's name may begin like a compressed archive; a header cannot.
      if (this.#headers === 1) refuseCompressed(this.#block);
      throw refusal;
    }
  }

  #beginExtension({ type, sizeBytes }: TarHeader): void {
    if (++this.#extensionsInRow > extensionsInRowMax)
      throw new TarRefusal("too many extended headers before one entry");
    if ((type === "x" && this.#pax !== undefined) || (type === "L" && this.#longName !== undefined)) {
      throw new TarRefusal("an entry has two extended headers of one kind");
    }
    if (sizeBytes === 0 || sizeBytes > extensionMaxBytes) {
      throw new TarRefusal(`header ${this.#headers} of the archive announces an extension of ${sizeBytes} bytes`);
    }
    this.#extension = { type, body: Buffer.allocUnsafe(sizeBytes), filled: 0 };
  }

  #collect(extension: { type: string; body: Buffer; filled: number }): void {
    const { type, body } = extension;
    extension.filled += this.#block.copy(
      body,
      extension.filled,
      0,
      Math.min(blockBytes, body.length - extension.filled),
    );
    if (extension.filled < body.length) return;
    this.#extension = undefined;
    const where = `entry ${this.#headers + 1}`;
    if (type === "x") this.#pax = readPax(body, "next entry", where);
    else if (type === "g") readPax(body, "global", where);
    else this.#longName = decodeText(body.at(-1) === 0 ? body.subarray(0, -1) : body, `the long name of ${where}`);
  }

  #addEntry({ name, type, sizeBytes: givenBytes }: TarHeader): void {
    if (this.#pax?.path !== undefined && this.#longName !== undefined) {
      throw new TarRefusal(`${showName(this.#longName)} has two long names`);
    }
    const path = this.#pax?.path ?? this.#longName ?? name;
    const sizeBytes = this.#pax?.sizeBytes ?? givenBytes;
    this.#pax = undefined;
    this.#longName = undefined;
    this.#extensionsInRow = 0;
    const kind = type === "5" ? "directory" : type === "0" || type === "\0" ? "file" : undefined;
    if (kind === undefined) {
      const what = refusedTypes[type] ?? `of the unknown type ${showName(type)}`;
      throw new TarRefusal(`the entry ${showName(path)} is ${what}: a template has files and directories only`);
    }
    if (kind === "directory" && sizeBytes > 0) throw new TarRefusal(`the directory ${showName(path)} has content`);
    this.#tree.add(path, kind);
    this.#skip = Math.ceil(sizeBytes / blockBytes) * blockBytes;
  }

  #pad(rest: Buffer): void {
    this.#paddingBytes += rest.length;
    if (this.#paddingBytes > paddingMaxBytes || !isZero(rest)) {
      throw new TarRefusal("something follows the end of the archive");
    }
  }
}

function isZero(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0);
}

function refuseCompressed(start: Buffer): void {
  for (const [name, magic] of compressions) {
    if (start.subarray(0, magic.length).equals(magic)) {
      throw new TarRefusal(`the archive is compressed (${name}); send the tar itself`);
    }
  }
}
