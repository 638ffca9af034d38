// Keys that sign access tokens: made on first use, replaced on a schedule or by the operator, published as long as a token may need them.
import { createPrivateKey, createPublicKey, generateKeyPairSync, type JsonWebKey, type KeyObject } from "node:crypto";
import { randomToken } from "../../core/ids.ts";
import type { SealKey } from "../../core/seal.ts";
import type { OauthSigningKeysTable } from "../db/tables/oauth-signing-keys.ts";
import type { SigningKeyStore } from "./signing-key-store.ts";

export const signingAlgorithm = "ES256";

/** A key is published this long before it signs, so that other processes and caches have it by then. */
const leadMs = 600_000;
/** Tokens outlive their key's last signature by their lifetime; clocks and caches get this on top. */
const marginMs = 3_600_000;
/** Bounds how often an unknown key id leads to a question to the database. */
const reloadPauseMs = 1_000;

export type SigningKey = {
  id: string;
  publicKey: KeyObject;
  privateJwk: JsonWebKey;
  createdAt: string;
  activeAt: string;
};

export type SigningKeysOptions = {
  store: SigningKeyStore;
  sealKey: SealKey;
  rotationMs: number;
  accessTokenTtlMs: number;
  /** Called whenever the set of keys or the one that signs has changed. */
  onChange: () => void;
};

export class SigningKeys {
  readonly #options: SigningKeysOptions;
  #keys: readonly SigningKey[] = [];
  #state = "";
  #reloadedAt = 0;

  constructor(options: SigningKeysOptions) {
    this.#options = options;
  }

  /** The one that signs first, then the others, newest first. */
  get all(): readonly SigningKey[] {
    return this.#keys;
  }

  get current(): SigningKey {
    const [current] = this.#keys;
    if (current === undefined) throw new Error("there is no signing key");
    return current;
  }

  /** Reads the keys, makes the first or the next one when it is time, and removes those that no token needs. Idempotent. */
  async maintain(now = Date.now()): Promise<void> {
    const { store, rotationMs, accessTokenTtlMs } = this.#options;
    const rows = await store.list();
    const [newest] = rows;
    if (newest === undefined) await this.#make(now);
    else if (now - Date.parse(newest.active_at) >= rotationMs) await this.#make(now + leadMs);
    const active = rows.filter(({ active_at }) => Date.parse(active_at) <= now);
    // A key has signed until the next newer one became active.
    const outlived = active.filter((_, index) => {
      const successor = active[index - 1];
      return successor !== undefined && Date.parse(successor.active_at) + accessTokenTtlMs + marginMs <= now;
    });
    await store.remove(outlived.map(({ id }) => id));
    await this.#reload(now);
  }

  /** A new key signs from now on. With `revoke`, tokens signed by older ones are no longer accepted. */
  async rotate({ revoke }: { revoke: boolean }, now = Date.now()): Promise<SigningKey> {
    const older = (await this.#options.store.list()).map(({ id }) => id);
    await this.#make(now);
    if (revoke) await this.#options.store.remove(older);
    await this.#reload(now);
    return this.current;
  }

  /** Undefined when no key has the id, also after asking the database, where another process may have put it. */
  async findPublicKey(id: string): Promise<KeyObject | undefined> {
    const known = this.#keys.find((key) => key.id === id);
    if (known !== undefined) return known.publicKey;
    const now = Date.now();
    if (now - this.#reloadedAt < reloadPauseMs) return undefined;
    await this.#reload(now);
    return this.#keys.find((key) => key.id === id)?.publicKey;
  }

  async #make(activeAt: number): Promise<void> {
    const { store, sealKey } = this.#options;
    const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const id = randomToken(16);
    await store.insert({
      id,
      public_key: JSON.stringify(publicKey.export({ format: "jwk" })),
      sealed_private_key: sealKey.seal(JSON.stringify(privateKey.export({ format: "jwk" })), signingKeyOf(id)),
      created_at: new Date().toISOString(),
      active_at: new Date(activeAt).toISOString(),
    });
  }

  async #reload(now: number): Promise<void> {
    this.#reloadedAt = now;
    const rows = await this.#options.store.list();
    const active = rows.filter(({ active_at }) => Date.parse(active_at) <= now);
    const upcoming = rows.filter((row) => !active.includes(row));
    const state = [...active, ...upcoming].map(({ id }) => id).join(" ");
    if (state === this.#state) return;
    this.#keys = [...active, ...upcoming].map((row) => this.#open(row));
    this.#state = state;
    this.#options.onChange();
  }

  #open({ id, sealed_private_key, created_at, active_at }: OauthSigningKeysTable): SigningKey {
    const known = this.#keys.find((key) => key.id === id);
    if (known !== undefined) return known;
    const privateJwk = JSON.parse(this.#options.sealKey.open(sealed_private_key, signingKeyOf(id))) as JsonWebKey;
    const publicKey = createPublicKey(createPrivateKey({ key: privateJwk, format: "jwk" }));
    return { id, publicKey, privateJwk, createdAt: created_at, activeAt: active_at };
  }
}

/** What a sealed signing key is bound to. */
export function signingKeyOf(id: string): string {
  return `oauth_signing_keys ${id}`;
}
