// Lets a request to a declared operation in, or refuses it before its body is read.
import type { FastifyRequest } from "fastify";
import type { Endpoint } from "../../contract/endpoint.ts";
import { AppError } from "../../core/errors.ts";
import { timingOf } from "../../core/timing.ts";
import { type Caller, type Principal, requireRole, requireScope } from "./caller.ts";
import { readCredential, readWorkspaceChoice } from "./credential.ts";
import { RequestLimits, type RequestLimitsConfig } from "./request-limits.ts";
import type { Authentication } from "./service.ts";

export type Guard = (request: FastifyRequest) => Promise<void>;

export function createGuard(authentication: Authentication, config: RequestLimitsConfig): Guard {
  const limits = new RequestLimits(config);
  return async (request) => {
    const { endpoint } = request.routeOptions.config;
    if (endpoint === undefined) return;
    const startedAt = performance.now();
    try {
      const principal = await identify(authentication, limits, request);
      request.principal = principal;
      limits.countRequest(principal.credentialId);
      if (endpoint.workspace === "none") return requireScope(principal.granted, endpoint);
      const caller = await chooseWorkspace(authentication, principal, endpoint, request);
      request.caller = caller;
      requireRole(caller, endpoint);
      requireScope(caller.scopes, endpoint);
    } finally {
      timingOf(request.raw).add("auth", performance.now() - startedAt);
    }
  };
}

async function identify(
  authentication: Authentication,
  limits: RequestLimits,
  request: FastifyRequest,
): Promise<Principal> {
  const credential = readCredential(request.raw.headers);
  try {
    return await authentication.authenticate(credential);
  } catch (error) {
    if (error instanceof AppError && error.code === "unauthenticated") limits.countRejection(request.ip);
    throw error;
  }
}

async function chooseWorkspace(
  authentication: Authentication,
  principal: Principal,
  { workspace }: Endpoint,
  request: FastifyRequest,
): Promise<Caller> {
  if (workspace !== "path") {
    return authentication.enter(principal, readWorkspaceChoice(request.raw.headers, request.query));
  }
  try {
    return await authentication.enter(principal, (request.params as { workspaceName: string }).workspaceName);
  } catch (error) {
    // Whether the resource named by the path exists is only for those who belong to it.
    if (!(error instanceof AppError && error.code === "forbidden")) throw error;
    throw new AppError("not_found", "There is no such workspace.");
  }
}
