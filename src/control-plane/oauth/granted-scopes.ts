// What a request for scopes asks for, and how much of it a role grants.
import { errors } from "oidc-provider";
import { oauthScopes, protocolScopes } from "../../contract/oauth.ts";
import { adminScope } from "../../contract/scopes.ts";
import { type Role, scopesOfRole } from "../auth/scopes.ts";

export type RequestedScopes = {
  /** Undefined when none is named: everything the role allows is meant. */
  api: readonly string[] | undefined;
  protocol: readonly string[];
};

const known = new Set([...oauthScopes, ...protocolScopes]);
const scopeMaxLength = 4_096;

/** Throws `invalid_scope` for a scope that does not exist: a token that silently lacks it would fail much later. */
export function readRequestedScopes(scope: string | undefined): RequestedScopes {
  if (scope !== undefined && scope.length > scopeMaxLength) throw invalidScope("the scope is too long");
  const names = [...new Set(scope?.split(" ").filter((name) => name !== ""))];
  const unknown = names.find((name) => !known.has(name));
  if (unknown !== undefined) {
    // Only what may stand in a scope is repeated.
    throw invalidScope(`there is no scope ${/^[\w:.-]{1,64}$/.test(unknown) ? unknown : "of this form"}`);
  }
  const api = names.filter((name) => !protocolScopes.includes(name));
  return {
    api: api.length === 0 ? undefined : api,
    protocol: names.filter((name) => protocolScopes.includes(name)),
  };
}

export function invalidScope(description: string): Error {
  return new errors.CustomOIDCProviderError("invalid_scope", description);
}

/** Never more than the role allows; `admin` covers the others and replaces them. */
export function grantScopes(requested: readonly string[] | undefined, role: Role): readonly string[] {
  const allowed = scopesOfRole(role);
  if (requested === undefined) return allowed;
  if (!allowed.includes(adminScope)) return requested.filter((scope) => allowed.includes(scope));
  return requested.includes(adminScope) ? [adminScope] : requested;
}
