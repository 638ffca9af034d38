// The end of what a terminal has shown, in bounded memory, for who connects later.

/** How far the beginning of a cut replay is looked for, so that it is not the inside of an escape sequence. */
const startMaxBytes = 4_096;
const escapeByte = 0x1b;
const newline = 0x0a;

export class Replay {
  readonly #maxBytes: number;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #isCut = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Whole characters. */
  append(text: string): void {
    const chunk = Buffer.from(text, "utf8");
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    // Cut when twice as much is there, or many small pieces are: then each byte is moved about once.
    if (this.#bytes > this.#maxBytes * 2 || this.#chunks.length > 1_024) this.#compact();
  }

  /** Begins with a whole character and, where something was cut off, with a line or an escape sequence if there is one near. */
  text(): string {
    this.#compact();
    const all = this.#chunks[0] ?? Buffer.alloc(0);
    return all.toString("utf8", this.#isCut ? findStart(all) : 0);
  }

  #compact(): void {
    const all = Buffer.concat(this.#chunks);
    let from = Math.max(0, all.length - this.#maxBytes);
    if (from > 0) this.#isCut = true;
    while (from < all.length && (all[from]! & 0xc0) === 0x80) from += 1;
    // A copy: a slice would keep all of it.
    this.#chunks = [from === 0 ? all : Buffer.from(all.subarray(from))];
    this.#bytes = all.length - from;
  }
}

function findStart(bytes: Buffer): number {
  const near = bytes.subarray(0, startMaxBytes);
  const line = near.indexOf(newline);
  const sequence = near.indexOf(escapeByte);
  if (line === -1 && sequence === -1) return 0;
  if (line === -1) return sequence;
  return sequence === -1 ? line + 1 : Math.min(line + 1, sequence);
}
