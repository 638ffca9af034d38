// Lets a request to a declared operation in, or refuses it before its body is read.
import type { FastifyRequest } from "fastify";
import type { Endpoint } from "../../contract/endpoint.ts";
import { AppError } from "../../core/errors.ts";
import { timingOf } from "../../core/timing.ts";
import { type Caller, type Principal, requireRole, requireScope } from "./caller.ts";
import { readCredential, readWorkspaceChoice } from "./credential.ts";
import type { Authentication } from "./service.ts";

export type Guard = (request: FastifyRequest) => Promise<void>;

export function createGuard(authentication: Authentication): Guard {
  return async (request) => {
    const { endpoint } = request.routeOptions.config;
    if (endpoint === undefined) return;
    const startedAt = performance.now();
    try {
      const principal = await authentication.authenticate(readCredential(request.raw.headers));
      request.principal = principal;
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
