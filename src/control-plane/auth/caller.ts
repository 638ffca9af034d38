// Who asks and in which workspace, as every route sees it; and what the roles allow.
import type { Endpoint } from "../../contract/endpoint.ts";
import { AppError } from "../../core/errors.ts";

export type Role = "admin" | "member";

export type Caller = {
  /** The user's id. */
  principalId: string;
  /** Recorded as `createdBy`. */
  principalName: string;
  role: Role;
  /** The workspace the request is about, which need not be the credential's own. */
  workspaceId: string;
  workspace: string;
};

const memberScopes = ["create", "delete", "get", "list", "update", "control"].map((verb) => `sandboxes:${verb}`);

/** `admin` covers every scope. */
export const roleScopes: Readonly<Record<Role, readonly string[]>> = { admin: ["admin"], member: memberScopes };

export function requireScope(caller: Caller, { scope }: Endpoint): void {
  const scopes = roleScopes[caller.role];
  if (scopes.includes("admin") || scopes.includes(scope)) return;
  throw new AppError("forbidden", `This needs the scope ${scope}, which the role ${caller.role} does not have.`);
}
