// Puts the audit log together.
import type { FastifyInstance } from "fastify";
import type { Logger } from "../../core/log.ts";
import type { Database } from "../db/database.ts";
import { type AuditObserver, createAuditObserver } from "./observe.ts";
import { mountAuditLog, mountOperatorAuditLog } from "./routes.ts";
import { type AuditConfig, type AuditService, createAuditService } from "./service.ts";
import { createAuditStore } from "./store.ts";

export type AuditParts = {
  config: { audit: AuditConfig };
  database: Database;
  log: Logger;
  opened: AsyncDisposableStack;
};

export type Audit = {
  service: AuditService;
  observer: AuditObserver;
  mount: (app: FastifyInstance) => void;
  operatorMount: (operator: FastifyInstance) => void;
};

export function openAudit({ config, database, log, opened }: AuditParts): Audit {
  const service = createAuditService({ store: createAuditStore(database), config: config.audit, log, opened });
  return {
    service,
    observer: createAuditObserver(service),
    mount: (app) => mountAuditLog(app, service),
    operatorMount: (operator) => mountOperatorAuditLog(operator, service),
  };
}
