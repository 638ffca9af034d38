// Who asks, before and after a workspace is chosen, as guard and routes see it; and whether that allows an operation.
import type { FastifyRequest } from "fastify";
import type { Endpoint } from "../../contract/endpoint.ts";
import { adminScope } from "../../contract/scopes.ts";
import { AppError } from "../../core/errors.ts";
import { covers, type Role, scopesOfRole } from "./scopes.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Set before the handler of any declared operation runs. */
    principal: Principal | undefined;
    /** The same in the workspace the request is about; not set where an operation is about none. */
    caller: Caller | undefined;
  }
}

export type Principal = {
  /** The user's or service account's id. */
  principalId: string;
  kind: "user" | "service_account";
  /** Recorded as `createdBy`. */
  principalName: string;
  /** Names the credential in logs, limits and the audit log; reveals nothing of it. */
  credentialId: string;
  /** What the credential grants wherever its owner may do that much. */
  granted: readonly string[];
  /** Where it acts when no workspace is named; a service account acts nowhere else. */
  home: Membership | undefined;
};

export type Membership = { workspaceId: string; workspace: string; role: Role };

export type Caller = Pick<Principal, "principalId" | "kind" | "principalName" | "credentialId"> &
  /** The workspace the request is about, which need not be the credential's own. */
  Membership & {
    /** What the credential allows, never more than the role does; `admin` covers all. */
    scopes: readonly string[];
  };

/** Throws `forbidden` unless the role allows the operation. */
export function requireRole({ role }: Caller, endpoint: Endpoint): void {
  if (endpoint.role === "admin" && role !== "admin") {
    throw new AppError("forbidden", "Only administrators of the workspace may do this.");
  }
}

/** Throws `forbidden` unless the scopes allow the operation. */
export function requireScope(scopes: readonly string[], { scope }: Endpoint): void {
  if (typeof scope === "string" && covers(scopes, scope)) return;
  const wanted = typeof scope === "string" ? [scope] : scope;
  const missing = wanted.find((each) => !covers(scopes, each));
  if (missing === undefined) return;
  throw new AppError("forbidden", `This needs the scope ${missing}, which the credential does not have.`, {
    details: { scope: wanted.join(" ") },
  });
}

/**
 * Throws `forbidden` unless the caller's own credential allows everything the role does: who is given a role has all of it, and a limited
 * credential must not make a stronger one.
 */
export function requireAllOf(role: Role, { scopes }: Pick<Caller, "scopes">): void {
  if (scopesOfRole(role).every((scope) => covers(scopes, scope))) return;
  throw new AppError("forbidden", `The credential's scopes do not allow giving the role ${role}.`, {
    details: { scope: adminScope },
  });
}

/** Who asks in a guarded request. */
export function principalOf({ principal }: FastifyRequest): Principal {
  if (principal === undefined) throw new AppError("unauthenticated", "The request has no credential.");
  return principal;
}

/** A person; throws `forbidden` for a service account. */
export function personOf(request: FastifyRequest): Principal {
  const principal = principalOf(request);
  if (principal.kind === "user") return principal;
  throw new AppError("forbidden", "Only a person may do this, not a service account.");
}
