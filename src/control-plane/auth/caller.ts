// Who asks and in which workspace, as every route sees it; and whether that allows an operation.
import type { Endpoint } from "../../contract/endpoint.ts";
import { AppError } from "../../core/errors.ts";
import { covers, type Role } from "./scopes.ts";

export type Caller = {
  /** The user's or service account's id. */
  principalId: string;
  kind: "user" | "service_account";
  /** Recorded as `createdBy`. */
  principalName: string;
  role: Role;
  /** The workspace the request is about, which need not be the credential's own. */
  workspaceId: string;
  workspace: string;
  /** What the credential allows, never more than the role does; `admin` covers all. */
  scopes: readonly string[];
  /** Names the credential in logs, limits and the audit log; reveals nothing of it. */
  credentialId: string;
};

/** Throws `forbidden` unless the caller's role and scopes allow the operation. */
export function requireScope({ role, scopes }: Caller, endpoint: Endpoint): void {
  if (endpoint.role === "admin" && role !== "admin") {
    throw new AppError("forbidden", "Only administrators of the workspace may do this.");
  }
  const wanted = typeof endpoint.scope === "string" ? [endpoint.scope] : endpoint.scope;
  const missing = wanted.find((scope) => !covers(scopes, scope));
  if (missing === undefined) return;
  throw new AppError("forbidden", `This needs the scope ${missing}, which the credential does not have.`);
}
