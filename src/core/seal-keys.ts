// Where the sealing key comes from, a file of its own or the environment, and how a new one takes over.
import { randomBytes } from "node:crypto";
import { linkSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { writeFileAtomic } from "./atomic-file.ts";
import { AppError } from "./errors.ts";
import { deriveFingerprintKey, type KeyRing, SealKey } from "./seal.ts";
import { invalidSetting, readText, type Settings } from "./settings.ts";

/** Longer than the answers to idempotency keys are kept. */
const fingerprintsKeptMs = 48 * 3_600_000;

export type SealKeySource = {
  path: string;
  /** Keys from the environment, which then stand for the file. */
  given?: { current: Buffer; previous: readonly Buffer[] };
};

export function readSealKeySource(settings: Settings, path: string): SealKeySource {
  const current = readGivenKey(settings, "CATNAP_SEAL_KEY");
  const previous = readGivenKey(settings, "CATNAP_SEAL_KEY_PREVIOUS");
  if (current === undefined && previous !== undefined)
    throw invalidSetting("CATNAP_SEAL_KEY_PREVIOUS", "beside CATNAP_SEAL_KEY");
  const isSame = current !== undefined && previous?.equals(current) === true;
  const given = current && { current, previous: previous === undefined || isSame ? [] : [previous] };
  return { path, ...(given && { given }) };
}

export class SealKeys {
  readonly key: SealKey;
  readonly source: "file" | "environment";
  readonly #path: string;
  #ring: KeyRing;

  constructor({ path, given }: SealKeySource) {
    this.source = given === undefined ? "file" : "environment";
    this.#path = path;
    this.#ring = given === undefined ? loadRing(path) : { ...given, retiredFingerprintKeys: [] };
    this.key = new SealKey(this.#ring);
  }

  /** Puts a new key into the file, beside the one in use. Nothing is sealed with it before `start`. */
  prepare(): { keyId: string; start: () => void } {
    if (this.#ring.previous.length > 0) throw new Error("the last change of the key has not ended");
    const ring = { ...this.#ring, current: randomBytes(32), previous: [this.#ring.current] };
    writeRing(this.#path, ring);
    const start = (): void => {
      this.#ring = ring;
      this.key.use(ring);
    };
    return { keyId: new SealKey(ring).id, start };
  }

  /** Drops the old key: only when nothing is sealed with it any more. What the environment gives stays until it is taken from there. */
  finish(): void {
    if (this.source === "environment" || this.#ring.previous.length === 0) return;
    const until = new Date(Date.now() + fingerprintsKeptMs).toISOString();
    const retired = this.#ring.previous.map((key) => ({ key: deriveFingerprintKey(key), until }));
    const ring = {
      current: this.#ring.current,
      previous: [],
      retiredFingerprintKeys: [...this.#ring.retiredFingerprintKeys, ...retired],
    };
    writeRing(this.#path, ring);
    this.#ring = ring;
    this.key.use(ring);
  }
}

/** The ring in a 0600 file, made on first use; two processes that start at once agree on one. */
function loadRing(path: string): KeyRing {
  try {
    return parseRing(readFileSync(path), path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  const temporary = `${path}.${process.pid}.new`;
  writeFileSync(temporary, randomBytes(32), { mode: 0o600, flush: true });
  try {
    linkSync(temporary, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    rmSync(temporary, { force: true });
  }
  return parseRing(readFileSync(path), path);
}

type StoredRing = { version: 1; current: string; previous: string[]; fingerprints: { key: string; until: string }[] };

/** A key alone is its 32 bytes; a change of keys needs more, which is JSON. */
function parseRing(content: Buffer, path: string): KeyRing {
  if (content.length === 32) return { current: content, previous: [], retiredFingerprintKeys: [] };
  try {
    const { version, current, previous, fingerprints } = JSON.parse(content.toString("utf8")) as StoredRing;
    if (version !== 1) throw new Error("of another version");
    const decode = (text: string): Buffer => {
      const key = Buffer.from(text, "base64");
      if (key.length !== 32) throw new Error("not 32 bytes");
      return key;
    };
    const now = new Date().toISOString();
    return {
      current: decode(current),
      previous: previous.map(decode),
      retiredFingerprintKeys: fingerprints
        .filter(({ until }) => until > now)
        .map(({ key, until }) => ({ key: decode(key), until })),
    };
  } catch {
    // The parser's words would quote the file.
    throw new AppError("internal", `${path} holds no sealing key: restore it from a backup.`);
  }
}

function writeRing(path: string, { current, previous, retiredFingerprintKeys }: KeyRing): void {
  const stored: StoredRing = {
    version: 1,
    current: current.toString("base64"),
    previous: previous.map((key) => key.toString("base64")),
    fingerprints: retiredFingerprintKeys.map(({ key, until }) => ({ key: key.toString("base64"), until })),
  };
  writeFileAtomic(path, `${JSON.stringify(stored)}\n`, { mode: 0o600, durable: true });
}

function readGivenKey(settings: Settings, name: string): Buffer | undefined {
  const text = readText(settings, name);
  if (text === undefined) return undefined;
  const key = Buffer.from(text, "base64");
  const isWhole = key.length === 32 && key.toString("base64").replace(/=$/, "") === text.replace(/=$/, "");
  if (!isWhole) throw invalidSetting(name, "32 bytes in base64, as `openssl rand -base64 32` makes them");
  return key;
}
