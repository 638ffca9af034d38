// Lets a request to a declared operation in, or refuses it before its body is read.
import type { FastifyRequest } from "fastify";
import type { Endpoint } from "../../contract/endpoint.ts";
import { AppError } from "../../core/errors.ts";
import { type Eventual, proceed, translateErrors } from "../../core/eventual.ts";
import { timingOf } from "../../core/timing.ts";
import { type Caller, type Principal, requireRole, requireScope } from "./caller.ts";
import { readCredential, readWorkspaceChoice } from "./credential.ts";
import { RequestLimits, type RequestLimitsConfig } from "./request-limits.ts";
import type { Authentication } from "./service.ts";

/** Each throws or rejects when the request may not go on. */
export type Guard = {
  /** Before anything of the body is read. */
  admit(request: FastifyRequest): Eventual<void>;
  /**
   * Again when the body is there, which the caller makes as slow as bodies may be: what was revoked meanwhile does nothing any more, least
   * of all make itself another credential.
   */
  readmit(request: FastifyRequest): Eventual<void>;
};

export function createGuard(authentication: Authentication, config: RequestLimitsConfig): Guard {
  const limits = new RequestLimits(config);
  const check = (request: FastifyRequest, endpoint: Endpoint, isFirst: boolean): Eventual<void> =>
    proceed(identify(authentication, limits, request), (principal) => {
      request.principal = principal;
      if (isFirst) limits.countRequest(principal.credentialId);
      if (endpoint.workspace === "none") return requireScope(principal.granted, endpoint);
      return proceed(chooseWorkspace(authentication, principal, endpoint, request), (caller) => {
        request.caller = caller;
        requireRole(caller, endpoint);
        requireScope(caller.scopes, endpoint);
      });
    });
  const guard = (request: FastifyRequest, isFirst: boolean): Eventual<void> => {
    const { endpoint } = request.routeOptions.config;
    if (endpoint !== undefined) return timingOf(request.raw).measure("auth", () => check(request, endpoint, isFirst));
  };
  return { admit: (request) => guard(request, true), readmit: (request) => guard(request, false) };
}

function identify(authentication: Authentication, limits: RequestLimits, request: FastifyRequest): Eventual<Principal> {
  const credential = readCredential(request.raw.headers);
  return translateErrors(
    () => authentication.authenticate(credential),
    (error) => {
      if (error instanceof AppError && error.code === "unauthenticated") limits.countRejection(request.ip);
      return error;
    },
  );
}

function chooseWorkspace(
  authentication: Authentication,
  principal: Principal,
  { workspace }: Endpoint,
  request: FastifyRequest,
): Eventual<Caller> {
  if (workspace !== "path") {
    return authentication.enter(principal, readWorkspaceChoice(request.raw.headers, request.query));
  }
  const { workspaceName } = request.params as { workspaceName: string };
  return translateErrors(
    () => authentication.enter(principal, workspaceName),
    // Whether the resource named by the path exists is only for those who belong to it.
    (error) => {
      const isClosed = error instanceof AppError && error.code === "forbidden";
      return isClosed ? new AppError("not_found", "There is no such workspace.") : error;
    },
  );
}
