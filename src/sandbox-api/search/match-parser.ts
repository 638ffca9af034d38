// Reads what ripgrep prints: a path, a zero byte, then `line:column:text` to the end of the line. It comes out of a sandbox, so lengths are bounded.
import type { ContentMatch } from "../../contract/sandbox-api/search.ts";

/** A path and a line of the program's own limit; what is longer is no line of it. */
const recordMaxBytes = 8 * 1024;
const newline = 0x0a;

export class MatchParser {
  readonly #onMatch: (match: ContentMatch) => void;
  #rest: Buffer = Buffer.alloc(0);
  #isSkipping = false;

  constructor(onMatch: (match: ContentMatch) => void) {
    this.#onMatch = onMatch;
  }

  push(chunk: Buffer): void {
    let bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    for (;;) {
      const end = findEnd(bytes);
      if (end === -1) break;
      if (!this.#isSkipping) this.#take(bytes.subarray(0, end));
      this.#isSkipping = false;
      bytes = bytes.subarray(end + 1);
    }
    if (bytes.length > recordMaxBytes) {
      this.#isSkipping = true;
      bytes = Buffer.alloc(0);
    }
    this.#rest = Buffer.from(bytes);
  }

  #take(record: Buffer): void {
    const zero = record.indexOf(0);
    if (zero === -1 || record.length > recordMaxBytes) return;
    const [, line, column, text] = /^(\d{1,15}):(\d{1,15}):(.*)$/s.exec(record.toString("utf8", zero + 1)) ?? [];
    if (line === undefined) return;
    const path = record.toString("utf8", 0, zero).replace(/^\.\//, "");
    this.#onMatch({ path, line: Number(line), column: Number(column), text: text!.replace(/\r$/, "") });
  }
}

/** The name of a file may contain the end of a line: only the one after the zero ends the record. */
function findEnd(bytes: Buffer): number {
  const zero = bytes.indexOf(0);
  return zero === -1 ? -1 : bytes.indexOf(newline, zero);
}
