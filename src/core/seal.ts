// Seals secrets so that a copy of the database reveals none of them: AES-256-GCM with the record's id bound in, so that a sealed
// text cannot be moved to another record. A new key can take over from an old one, which opens what it sealed until that is sealed anew.
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";

/** Keys that still open; those of the second list only say whether a fingerprint is of a text. */
export type KeyRing = {
  current: Buffer;
  previous: readonly Buffer[];
  retiredFingerprintKeys: readonly { key: Buffer; until: string }[];
};

type Key = { id: string; bytes: Buffer; fingerprintKey: Buffer };

const keyBytes = 32;
const opaque = /^v2\.([\w-]{16})\./;

/** Keys that never leave this object. Sealed texts are `v2.`, the key's id, `.` and base64url of nonce (12), tag (16) and ciphertext. */
export class SealKey {
  #current: Key;
  #previous: readonly Key[];
  #retired: KeyRing["retiredFingerprintKeys"];

  constructor(keys: Buffer | KeyRing) {
    const ring = Buffer.isBuffer(keys) ? { current: keys, previous: [], retiredFingerprintKeys: [] } : keys;
    this.#current = readKey(ring.current);
    this.#previous = ring.previous.map(readKey);
    this.#retired = ring.retiredFingerprintKeys;
  }

  /** Tells keys apart without revealing them: stored beside sealed texts, it shows a wrong key at once. */
  get id(): string {
    return this.#current.id;
  }

  /** Keys that open what was sealed before the current one took over. */
  get previousIds(): readonly string[] {
    return this.#previous.map(({ id }) => id);
  }

  /** From here on everything is sealed with the ring's current key. */
  use(ring: KeyRing): void {
    this.#current = readKey(ring.current);
    this.#previous = ring.previous.map(readKey);
    this.#retired = ring.retiredFingerprintKeys;
  }

  /** Equal texts have equal fingerprints, until the key changes; without the key nothing can be guessed from one. */
  fingerprint(text: string): string {
    return fingerprintWith(this.#current.fingerprintKey, text);
  }

  /** Whether it is the text's fingerprint, also one made before the key changed: for fingerprints that are stored. */
  matchesFingerprint(fingerprint: string, text: string): boolean {
    const now = new Date().toISOString();
    const retired = this.#retired.filter(({ until }) => until > now).map(({ key }) => key);
    const keys = [this.#current, ...this.#previous].map(({ fingerprintKey }) => fingerprintKey);
    return [...keys, ...retired].some((key) => equals(fingerprintWith(key, text), fingerprint));
  }

  /** What texts that the current key has sealed begin with. */
  get prefix(): string {
    return `v2.${this.#current.id}.`;
  }

  seal(text: string, recordId: string): string {
    const nonce = randomBytes(12);
    const cipher = createCipheriv("aes-256-gcm", this.#current.bytes, nonce).setAAD(Buffer.from(recordId));
    const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
    return `${this.prefix}${Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString("base64url")}`;
  }

  /** Throws when the text was sealed for another record, under another key, or was altered. */
  open(sealed: string, recordId: string): string {
    const keyId = opaque.exec(sealed)?.[1];
    const keys = [this.#current, ...this.#previous];
    if (keyId !== undefined) {
      const key = keys.find(({ id }) => id === keyId);
      if (key === undefined) throw new Error("sealed with a key that is not here");
      return openWith(key, sealed.slice(opaque.exec(sealed)![0].length), recordId);
    }
    if (!sealed.startsWith("v1.")) throw new Error("not a sealed text");
    // Texts of the first form do not say which key it was.
    for (const key of keys.slice(0, -1)) {
      try {
        return openWith(key, sealed.slice(3), recordId);
      } catch {
        // The next one decides.
      }
    }
    return openWith(keys.at(-1)!, sealed.slice(3), recordId);
  }

  /** The same text under the current key; undefined when it is that already. */
  reseal(sealed: string, recordId: string): string | undefined {
    return sealed.startsWith(this.prefix) ? undefined : this.seal(this.open(sealed, recordId), recordId);
  }
}

/** From which fingerprints are made, and no more than that. */
export function deriveFingerprintKey(key: Buffer): Buffer {
  return Buffer.from(hkdfSync("sha256", key, "", "fingerprint", keyBytes));
}

function readKey(bytes: Buffer): Key {
  if (bytes.length !== keyBytes) throw new Error("a sealing key is 32 bytes");
  const fingerprintKey = deriveFingerprintKey(bytes);
  return { bytes, fingerprintKey, id: fingerprintWith(fingerprintKey, "key").slice(0, 16) };
}

function fingerprintWith(fingerprintKey: Buffer, text: string): string {
  return createHmac("sha256", fingerprintKey).update(text).digest("base64url");
}

function equals(left: string, right: string): boolean {
  const [a, b] = [Buffer.from(left), Buffer.from(right)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function openWith({ bytes: key }: Key, encoded: string, recordId: string): string {
  const bytes = Buffer.from(encoded, "base64url");
  if (bytes.length < 28) throw new Error("not a sealed text");
  const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, 12))
    .setAAD(Buffer.from(recordId))
    .setAuthTag(bytes.subarray(12, 28));
  return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString("utf8");
}
