// Random identifiers in the alphabet that names, host labels and file names all accept.
import { randomBytes } from "node:crypto";

const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789";

/** A text of `length` characters of `[a-z0-9]` from the system's random source, without modulo bias. */
export function randomToken(length: number): string {
  let token = "";
  while (token.length < length) {
    for (const byte of randomBytes(length * 2)) {
      if (byte < 252 && token.length < length) token += alphabet[byte % 36];
    }
  }
  return token;
}
