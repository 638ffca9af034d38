// What each role of a workspace allows, and how what a credential grants is cut down to it.
import { adminScope, scopes } from "../../contract/scopes.ts";

export const roles = ["admin", "member"] as const;
export type Role = (typeof roles)[number];

/** Policies, users, integrations and the settings of the workspace belong to its administrators. */
const adminOnly: readonly string[] = [
  adminScope,
  "workspaces:update",
  "workspaces:delete",
  "workspaces:invite",
  "workspaces:remove",
  ...scopes.filter((scope) => /^(?:policies|integrations):/.test(scope)),
];

const memberScopes: readonly string[] = scopes.filter((scope) => !adminOnly.includes(scope));
const adminScopes: readonly string[] = [adminScope];

/** Everything the role allows; `admin` covers every scope. */
export function scopesOfRole(role: Role): readonly string[] {
  return role === "admin" ? adminScopes : memberScopes;
}

/** What a credential with the granted scopes may do in a workspace where its owner has the role: never more than either allows. */
export function effectiveScopes(granted: readonly string[], role: Role): readonly string[] {
  if (granted.includes(adminScope)) return scopesOfRole(role);
  if (role === "admin") return granted;
  return granted.filter((scope) => memberScopes.includes(scope));
}

/** Whether the scopes include the wanted one. */
export function covers(held: readonly string[], wanted: string): boolean {
  return held.includes(adminScope) || held.includes(wanted);
}
