// Access tokens are JWTs and stored nowhere; for revocation and introspection one stands in under a name that only its request knows.
import { type Adapter, type AdapterPayload, errors } from "oidc-provider";
import { randomToken } from "../../core/ids.ts";
import type { AccessToken } from "./access-tokens.ts";

export type TokenAliases = {
  /** Makes the verified token findable until it is forgotten. */
  add(token: AccessToken): string;
  forget(alias: string): void;
  /** The library's storage of the model `AccessToken`. */
  adapter: Adapter;
};

export function createTokenAliases(revoke: (token: AccessToken) => Promise<void>): TokenAliases {
  const tokens = new Map<string, AccessToken>();
  const adapter: Adapter = {
    find: async (alias) => {
      const token = tokens.get(alias);
      return token && toPayload(alias, token);
    },
    async destroy(alias) {
      const token = tokens.get(alias);
      if (token !== undefined) await revoke(token);
    },
    findByUid: async () => undefined,
    findByUserCode: async () => undefined,
    // Grants hold what is issued under them; there is no access token to remove.
    revokeByGrantId: async () => undefined,
    upsert: async () => {
      throw new errors.InvalidRequest("access tokens are not stored");
    },
    consume: async () => undefined,
  };
  return {
    add(token) {
      const alias = randomToken(50);
      tokens.set(alias, token);
      return alias;
    },
    forget: (alias) => void tokens.delete(alias),
    adapter,
  };
}

function toPayload(alias: string, token: AccessToken): AdapterPayload {
  return {
    kind: "AccessToken",
    jti: alias,
    accountId: token.subjectId,
    clientId: token.clientId,
    scope: token.scopes.join(" "),
    aud: token.audience,
    iat: Math.floor(token.issuedAt / 1_000),
    exp: Math.floor(token.expiresAt / 1_000),
  };
}
