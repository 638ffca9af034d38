// Seals secrets for storage with AES-256-GCM; the record's id is bound in, so a sealed text cannot be moved to another record.
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from "node:crypto";
import { linkSync, readFileSync, rmSync, writeFileSync } from "node:fs";

/** A 256-bit key that never leaves this object. Sealed texts are `v1.` and base64url of nonce (12), tag (16) and ciphertext. */
export class SealKey {
  readonly #key: Buffer;
  readonly #fingerprintKey: Buffer;

  constructor(key: Buffer) {
    if (key.length !== 32) throw new Error("a sealing key is 32 bytes");
    this.#key = key;
    this.#fingerprintKey = Buffer.from(hkdfSync("sha256", key, "", "fingerprint", 32));
  }

  /** Tells keys apart without revealing them: stored beside sealed texts, it shows a wrong key at once. */
  get id(): string {
    return this.fingerprint("key").slice(0, 16);
  }

  /** Equal texts have equal fingerprints; without the key nothing can be guessed from one. */
  fingerprint(text: string): string {
    return createHmac("sha256", this.#fingerprintKey).update(text).digest("base64url");
  }

  seal(text: string, recordId: string): string {
    const nonce = randomBytes(12);
    const cipher = createCipheriv("aes-256-gcm", this.#key, nonce).setAAD(Buffer.from(recordId));
    const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
    return `v1.${Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString("base64url")}`;
  }

  /** Throws when the text was sealed for another record, under another key, or was altered. */
  open(sealed: string, recordId: string): string {
    const bytes = Buffer.from(sealed.slice(3), "base64url");
    if (!sealed.startsWith("v1.") || bytes.length < 28) throw new Error("not a sealed text");
    const decipher = createDecipheriv("aes-256-gcm", this.#key, bytes.subarray(0, 12))
      .setAAD(Buffer.from(recordId))
      .setAuthTag(bytes.subarray(12, 28));
    return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString("utf8");
  }
}

/** The key in a 0600 file, made on first use; two processes that start at once agree on one. */
export function loadSealKey(path: string): SealKey {
  const temporary = `${path}.${process.pid}.new`;
  try {
    return new SealKey(readFileSync(path));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  writeFileSync(temporary, randomBytes(32), { mode: 0o600, flush: true });
  try {
    linkSync(temporary, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    rmSync(temporary, { force: true });
  }
  return new SealKey(readFileSync(path));
}
