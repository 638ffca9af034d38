// API keys: made for a person or a service account, listed without the key itself, revoked at once.
import { type ApiKey, type ApiKeyInput, keyLifetimeMaxMs, type NewApiKey } from "../../contract/api-key.ts";
import { adminScope } from "../../contract/scopes.ts";
import { parseDurationMs } from "../../core/duration.ts";
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import { generateSecret, hashSecret } from "../auth/secrets.ts";
import type { ApiKeysTable } from "../db/tables/api-keys.ts";
import type { ApiKeyStore, KeyOwner } from "./store.ts";

export const keysPerOwnerMax = 100;

/** For whom and by whom a key is made. */
export type KeyOrder = {
  owner: KeyOwner;
  workspaceId: string | null;
  createdBy: string;
  /** What the maker's own credential grants: a key never grants more. */
  granted: readonly string[];
};

export type ApiKeyService = ReturnType<typeof createApiKeyService>;

export function createApiKeyService({ store }: { store: ApiKeyStore }) {
  return {
    list: async (owner: KeyOwner): Promise<ApiKey[]> => (await store.list(owner, keysPerOwnerMax)).map(present),
    async create({ owner, workspaceId, createdBy, granted }: KeyOrder, input: ApiKeyInput): Promise<NewApiKey> {
      const lifetimeMs = readLifetime(input.expires_in);
      const apiKey = generateSecret("apiKey");
      const now = Date.now();
      const row: ApiKeysTable = {
        id: randomToken(16),
        workspace_id: workspaceId,
        user_id: null,
        service_account_id: null,
        ...owner,
        name: input.name ?? "api key",
        token_hash: hashSecret(apiKey),
        expires_in: input.expires_in ?? null,
        created_at: new Date(now).toISOString(),
        created_by: createdBy,
        expires_at: lifetimeMs === undefined ? null : new Date(now + lifetimeMs).toISOString(),
        scopes: granted.includes(adminScope) ? null : JSON.stringify(granted),
        last_used_at: null,
      };
      if (!(await store.insert(owner, row, keysPerOwnerMax))) {
        throw new AppError("conflict", `There are ${keysPerOwnerMax} API keys already: revoke one first.`);
      }
      return { ...present(row), apiKey };
    },
    /** Resolves once no request is accepted with the key any more. */
    async revoke(owner: KeyOwner, id: string): Promise<ApiKey> {
      const row = await store.remove(owner, id);
      if (row === undefined) throw new AppError("not_found", "There is no such API key.");
      return present(row);
    },
  };
}

function readLifetime(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const lifetimeMs = parseDurationMs(text);
  if (lifetimeMs !== undefined && lifetimeMs > 0 && lifetimeMs <= keyLifetimeMaxMs) return lifetimeMs;
  throw new AppError("invalid_request", "expires_in must be a duration such as 24h, 30d or 1w, of at most 3650d");
}

function present(row: ApiKeysTable): ApiKey {
  return {
    id: row.id,
    name: row.name,
    expires_in: row.expires_in ?? undefined,
    expiresAt: row.expires_at ?? undefined,
    lastUsedAt: row.last_used_at ?? undefined,
    sub: (row.user_id ?? row.service_account_id)!,
    sub_type: row.user_id === null ? "service_account" : "user",
    createdAt: row.created_at,
    updatedAt: row.created_at,
    createdBy: row.created_by ?? undefined,
    updatedBy: row.created_by ?? undefined,
  };
}
