// The HTTP operations on API keys: of a service account by its administrators, of a person by that person.
import type { FastifyInstance } from "fastify";
import {
  createOwnKey,
  createServiceAccountKey,
  deleteOwnKey,
  deleteServiceAccountKey,
  listOwnKeys,
  listServiceAccountKeys,
} from "../../contract/api-key.ts";
import { implement } from "../../contract/implement.ts";
import { callerOf } from "../app.ts";
import { personOf, principalOf } from "../auth/caller.ts";
import type { ServiceAccountService } from "../service-accounts/service.ts";
import type { ApiKeyService } from "./service.ts";

export type ApiKeyRoutes = { apiKeys: ApiKeyService; serviceAccounts: ServiceAccountService };

export function mountApiKeys(app: FastifyInstance, { apiKeys, serviceAccounts }: ApiKeyRoutes): void {
  implement(app, listServiceAccountKeys, async ({ params }, request) => {
    const { client_id } = await serviceAccounts.get(callerOf(request), params.clientId);
    return apiKeys.list({ service_account_id: client_id });
  });
  implement(app, createServiceAccountKey, async ({ params, body }, request) => {
    const { workspaceId, principalName: createdBy } = callerOf(request);
    const { client_id } = await serviceAccounts.get(callerOf(request), params.clientId);
    const owner = { service_account_id: client_id };
    return apiKeys.create({ owner, workspaceId, createdBy, granted: principalOf(request).granted }, body);
  });
  implement(app, deleteServiceAccountKey, async ({ params }, request) => {
    const { client_id } = await serviceAccounts.get(callerOf(request), params.clientId);
    return apiKeys.revoke({ service_account_id: client_id }, params.apiKeyId);
  });
  implement(app, listOwnKeys, (_input, request) => apiKeys.list({ user_id: personOf(request).principalId }));
  implement(app, createOwnKey, ({ body }, request) => {
    const { principalId, principalName: createdBy, granted } = personOf(request);
    const { workspaceId } = callerOf(request);
    return apiKeys.create({ owner: { user_id: principalId }, workspaceId, createdBy, granted }, body);
  });
  implement(app, deleteOwnKey, ({ params }, request) =>
    apiKeys.revoke({ user_id: personOf(request).principalId }, params.apiKeyId),
  );
}
