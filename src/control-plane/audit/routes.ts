// The HTTP operations on the audit log: of a workspace for its administrators, of everything for the operator.
import type { FastifyInstance } from "fastify";
import { listAuditLog } from "../../contract/audit-log.ts";
import { implement } from "../../contract/implement.ts";
import { readAuditLog } from "../../contract/operator/audit.ts";
import { callerOf } from "../app.ts";
import type { AuditService } from "./service.ts";

export function mountAuditLog(app: FastifyInstance, audit: AuditService): void {
  implement(app, listAuditLog, ({ query }, request) => audit.list(callerOf(request).workspaceId, query));
}

export function mountOperatorAuditLog(app: FastifyInstance, audit: AuditService): void {
  implement(app, readAuditLog, ({ query }) => audit.list(undefined, query));
}
