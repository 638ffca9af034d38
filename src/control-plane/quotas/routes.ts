// The operations on quotas, mounted.
import type { FastifyInstance } from "fastify";
import { implement } from "../../contract/implement.ts";
import { listQuotas } from "../../contract/quota.ts";
import { AppError } from "../../core/errors.ts";
import { callerOf } from "../app.ts";
import type { Quotas } from "./service.ts";

export function mountQuotas(app: FastifyInstance, quotas: Quotas): void {
  implement(app, listQuotas, async ({ params }, request) => {
    const { workspaceId, workspace } = callerOf(request);
    if (params.accountId !== workspaceId && params.accountId !== workspace) {
      throw new AppError("not_found", "There is no account of this id.");
    }
    return quotas.list(workspaceId);
  });
}
