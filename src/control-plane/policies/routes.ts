// The operations on policies, mounted.
import type { FastifyInstance } from "fastify";
import { implement } from "../../contract/implement.ts";
import { bareListVersion } from "../../contract/page.ts";
import {
  createPolicy,
  deletePolicy,
  getPolicy,
  listPolicies,
  listPolicyUsages,
  updatePolicy,
} from "../../contract/policy.ts";
import { callerOf } from "../app.ts";
import type { createPolicyList } from "./list.ts";
import { type PolicyService, policiesMax } from "./service.ts";

export function mountPolicies(
  app: FastifyInstance,
  service: PolicyService,
  list: ReturnType<typeof createPolicyList>,
): void {
  implement(app, listPolicies, async ({ query }, request) => {
    const caller = callerOf(request);
    if (request.apiVersion !== bareListVersion) return list(caller, query);
    return (await list(caller, { ...query, limit: query.limit ?? policiesMax })).data;
  });

  implement(app, createPolicy, ({ body }, request) => service.create(callerOf(request), body));

  implement(app, getPolicy, ({ params }, request) => service.get(callerOf(request), params.policyName));

  implement(app, updatePolicy, ({ params, body }, request) =>
    service.update(callerOf(request), params.policyName, body),
  );

  implement(app, deletePolicy, ({ params }, request) => service.delete(callerOf(request), params.policyName));

  implement(app, listPolicyUsages, ({ params }, request) => service.usages(callerOf(request), params.policyName));
}
