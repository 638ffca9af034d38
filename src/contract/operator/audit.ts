// The audit log of the whole installation, for the operator.
import { AuditPage, AuditQuery } from "../audit-log.ts";
import { endpoint } from "../endpoint.ts";

export const readAuditLog = endpoint({
  method: "GET",
  path: "/audit-log",
  summary: "List what was changed and refused, newest first",
  tag: "operator",
  scope: "admin",
  query: AuditQuery,
  response: AuditPage,
});
