// The OAuth library's storage on our records: ids hashed, payloads sealed, use only once decided by the database.
import { hash } from "node:crypto";
import { type Adapter, type AdapterPayload, errors } from "oidc-provider";
import type { SealKey } from "../../core/seal.ts";
import type { RecordStore } from "./record-store.ts";
import type { TokenAliases } from "./token-aliases.ts";

/** A refused device keeps asking; a used device code is remembered as long as its refresh token can be used with it. */
const deviceCodeKeptMs = 90 * 86_400_000;

/** Everything the library stores has a lifetime; this is for what it forgot one for. */
const defaultTtlSeconds = 600;

export type AdapterOptions = {
  store: RecordStore;
  sealKey: SealKey;
  /** Answers for the model `Client`: people do not register clients over OAuth. */
  findClient: (clientId: string) => Promise<AdapterPayload | undefined>;
  aliases: TokenAliases;
};

/** What codes, tokens and ids are stored as. They have 256 random bits, so a slow hash would add nothing. */
export function hashId(id: string): string {
  return hash("sha256", id, "hex");
}

export function createAdapterFactory(options: AdapterOptions): (model: string) => Adapter {
  return (model) => {
    if (model === "Client") return createClientAdapter(options);
    if (model === "AccessToken") return options.aliases.adapter;
    return createRecordAdapter(model, options);
  };
}

function createRecordAdapter(model: string, { store, sealKey }: AdapterOptions): Adapter {
  const userCodeOf = (code: string): string => sealKey.fingerprint(`oauth user code ${code}`);
  const find = async (column: "id" | "uid" | "user_code", value: string): Promise<AdapterPayload | undefined> => {
    const record = await store.findBy(column, model, value);
    if (record === undefined) return undefined;
    const payload = JSON.parse(sealKey.open(record.sealed_payload, payloadOf(model, record.id))) as AdapterPayload;
    return record.consumed_at === null ? payload : { ...payload, consumed: true };
  };
  return {
    async upsert(id, payload, expiresIn = defaultTtlSeconds) {
      const key = hashId(id);
      await store.upsert({
        model,
        id: key,
        grant_id: payload.grantId === undefined ? null : hashId(payload.grantId),
        uid: payload.uid === undefined ? null : hashId(payload.uid),
        user_code: payload.userCode === undefined ? null : userCodeOf(payload.userCode),
        subject_id: payload.accountId ?? null,
        client_id: payload.clientId ?? null,
        sealed_payload: sealKey.seal(JSON.stringify(payload), payloadOf(model, key)),
        consumed_at: null,
        expires_at: new Date(Date.now() + expiresIn * 1_000).toISOString(),
      });
    },
    find: (id) => find("id", hashId(id)),
    findByUid: (uid) => find("uid", hashId(uid)),
    findByUserCode: (code) => find("user_code", userCodeOf(code)),
    async consume(id) {
      const key = hashId(id);
      const now = new Date();
      if (await store.consume(model, key, now.toISOString())) {
        if (model === "DeviceCode") await store.extend(model, key, new Date(+now + deviceCodeKeptMs).toISOString());
        return;
      }
      // Used since it was read. A device that asked twice at once is still to be given what its first question gets.
      if (model === "DeviceCode") throw new errors.InvalidGrant("already used");
      // Otherwise one of the two is not who it was issued to.
      const record = await store.findBy("id", model, key);
      if (record?.grant_id != null) await store.removeGrant(record.grant_id);
      throw new errors.InvalidGrant("already used");
    },
    async destroy(id) {
      if (model === "Grant") await store.removeGrant(hashId(id));
      else await store.remove(model, hashId(id));
    },
    revokeByGrantId: (grantId) => store.removeGrant(hashId(grantId)),
  };
}

/** Clients are managed elsewhere; the library only reads them. */
function createClientAdapter({ findClient }: AdapterOptions): Adapter {
  const refuse = (): never => {
    throw new Error("clients are not written by the OAuth library");
  };
  return {
    find: findClient,
    findByUid: async () => undefined,
    findByUserCode: async () => undefined,
    upsert: refuse,
    consume: refuse,
    destroy: refuse,
    revokeByGrantId: refuse,
  };
}

/** What a sealed payload is bound to. */
export function payloadOf(model: string, id: string): string {
  return `${model} ${id}`;
}
