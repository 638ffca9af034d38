// The HTTP server behind the operator socket: whoever can open the socket is the operator of the machine, so no request has a credential.
import type { FastifyInstance } from "fastify";
import type { Logger } from "../../core/log.ts";
import { createServer } from "../app.ts";
import type { AuditObserver } from "../audit/observe.ts";
import type { Principal } from "../auth/caller.ts";

/** Recorded where other requests record who asked. */
export const operatorName = "operator";

const operator: Principal = {
  principalId: operatorName,
  kind: "user",
  principalName: operatorName,
  credentialId: operatorName,
  granted: [],
  home: undefined,
};

export type OperatorAppOptions = {
  bodyMaxBytes: number;
  bodyTimeoutMs: number;
  log: Logger;
  audit: AuditObserver;
  routes: (app: FastifyInstance) => void;
};

export function createOperatorApp({
  bodyMaxBytes,
  bodyTimeoutMs,
  log,
  audit,
  routes,
}: OperatorAppOptions): Promise<FastifyInstance> {
  return createServer({
    bodyMaxBytes,
    bodyTimeoutMs,
    log: log.child({ principal: operatorName }),
    audit,
    admit: async (request) => {
      request.principal = operator;
      request.audited = { principal_kind: operatorName, credential_id: null };
    },
    routes,
  });
}
