// The operations on quotas, mounted: for callers, and for the operator of the machine.
import type { FastifyInstance } from "fastify";
import { implement } from "../../contract/implement.ts";
import { listQuotaSettings, resetQuota, setQuota } from "../../contract/operator/quotas.ts";
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

export function mountOperatorQuotas(operator: FastifyInstance, quotas: Quotas): void {
  implement(operator, listQuotaSettings, ({ params }) => quotas.listSettings(params.workspace));

  implement(operator, setQuota, ({ params, body }) => quotas.set(params.workspace, params.resourceType, body.value));

  implement(operator, resetQuota, ({ params }) => quotas.reset(params.workspace, params.resourceType));
}
