// The audit log of a workspace: who changed what, when and from where, and who was refused.
import Type, { type Static } from "typebox";
import { endpoint } from "./endpoint.ts";
import { pageLimitMax } from "./page.ts";

export const AuditEntry = Type.Object({
  id: Type.String(),
  time: Type.String(),
  workspace: Type.Optional(Type.String()),
  /** Absent when nobody was recognised. */
  sub: Type.Optional(Type.String()),
  subName: Type.Optional(Type.String()),
  sub_type: Type.Optional(Type.String()),
  /** Id of the API key or token. */
  credential: Type.Optional(Type.String()),
  /** Method and path, e.g. `DELETE /sandboxes/:sandboxName`. */
  operation: Type.String(),
  /** Name or id of what it was about. */
  resource: Type.Optional(Type.String()),
  /** HTTP status of the answer. */
  status: Type.Integer(),
  error: Type.Optional(Type.String()),
  /** Of the client. */
  address: Type.Optional(Type.String()),
  /** Also in the answer's `x-request-id` and in the log. */
  requestId: Type.String(),
});
export type AuditEntry = Static<typeof AuditEntry>;

export const AuditQuery = Type.Object({
  /** At most 200. */
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: pageLimitMax })),
  cursor: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  /** Only what this user or service account did. */
  sub: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  /** Only entries from this time on, ISO 8601. */
  since: Type.Optional(Type.String({ maxLength: 40 })),
});
export type AuditQuery = Static<typeof AuditQuery>;

/** Newest first. */
export const AuditPage = Type.Object({
  data: Type.Array(AuditEntry),
  meta: Type.Object({ hasMore: Type.Boolean(), nextCursor: Type.Optional(Type.String()) }),
});
export type AuditPage = Static<typeof AuditPage>;

export const listAuditLog = endpoint({
  method: "GET",
  path: "/audit_logs",
  summary: "List what was changed and refused in the workspace, newest first",
  tag: "audit log",
  scope: "workspaces:get",
  role: "admin",
  query: AuditQuery,
  response: AuditPage,
});
