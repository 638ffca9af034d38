// Composes workspaces, people, service accounts and what proves them: the nouns that every other one may ask who somebody is.
import type { FastifyInstance } from "fastify";
import type { Logger } from "../core/log.ts";
import { type LastUse, openLastUse } from "./api-keys/last-use.ts";
import { mountApiKeys } from "./api-keys/routes.ts";
import { type ApiKeyService, createApiKeyService } from "./api-keys/service.ts";
import { createApiKeyStore } from "./api-keys/store.ts";
import { Revocations } from "./auth/revocations.ts";
import { Authentication, type TokenClaims } from "./auth/service.ts";
import { type AuthStore, createAuthStore } from "./auth/store.ts";
import type { Database } from "./db/database.ts";
import { mountServiceAccounts } from "./service-accounts/routes.ts";
import { createServiceAccountService, type ServiceAccountService } from "./service-accounts/service.ts";
import { createServiceAccountStore } from "./service-accounts/store.ts";
import { mountOperatorUsers } from "./users/operator-routes.ts";
import { createUserService, type UserService } from "./users/service.ts";
import { createUserStore } from "./users/store.ts";
import { createInvitationStore } from "./workspace-users/invitation-store.ts";
import { createInvitations } from "./workspace-users/invitations.ts";
import { mountWorkspaceUsers } from "./workspace-users/routes.ts";
import { createWorkspaceUserService } from "./workspace-users/service.ts";
import { createWorkspaceUserStore } from "./workspace-users/store.ts";
import { mountWorkspaces } from "./workspaces/routes.ts";
import { createWorkspaceService, type ResourceCounters } from "./workspaces/service.ts";
import { createWorkspaceStore } from "./workspaces/store.ts";

export type Identity = {
  users: UserService;
  serviceAccounts: ServiceAccountService;
  apiKeys: ApiKeyService;
  authentication: Authentication;
  authStore: AuthStore;
  lastUse: LastUse;
  /** Subscribe to end the tokens of a principal. */
  revocations: Revocations;
  /** Set by whoever issues access tokens; until then none is accepted. */
  tokens: { verify: (token: string) => Promise<TokenClaims | undefined> };
  /** Mounts everything about workspaces, their people, service accounts and keys. */
  mount(app: FastifyInstance, counters: ResourceCounters): void;
  operatorMount(operator: FastifyInstance): void;
};

export type IdentityOptions = {
  database: Database;
  opened: AsyncDisposableStack;
  log: Logger;
  region: string;
  /** How often the times at which keys were used are written down. */
  lastUseIntervalMs: number;
};

export function openIdentity(options: IdentityOptions): Identity {
  const { database, opened, log, region, lastUseIntervalMs: intervalMs } = options;
  const revocations = new Revocations();
  const users = createUserService({ store: createUserStore(database), revocations });
  const serviceAccounts = createServiceAccountService({ store: createServiceAccountStore(database), revocations });
  const apiKeyStore = createApiKeyStore(database);
  const apiKeys = createApiKeyService({ store: apiKeyStore });
  const lastUse = opened.use(openLastUse({ store: apiKeyStore, intervalMs, log }));
  const authStore = createAuthStore(database);
  const tokens: Identity["tokens"] = { verify: () => Promise.resolve(undefined) };
  const authentication = new Authentication({
    store: authStore,
    verifyToken: (token) => tokens.verify(token),
    onKeyUsed: (keyId) => lastUse.note(keyId),
  });
  const invitationStore = createInvitationStore(database);
  const invitations = createInvitations({ store: invitationStore, users });
  const workspaceUsers = createWorkspaceUserService({
    store: createWorkspaceUserStore(database),
    invitations: invitationStore,
  });
  return {
    users,
    serviceAccounts,
    apiKeys,
    authentication,
    authStore,
    lastUse,
    revocations,
    tokens,
    operatorMount: (operator) => mountOperatorUsers(operator, { users, apiKeys }),
    mount(app, counters) {
      const counted = { ...counters, serviceaccounts: (workspaceId: string) => serviceAccounts.count(workspaceId) };
      const store = createWorkspaceStore(database);
      const workspaces = createWorkspaceService({ store, counters: counted, region });
      mountWorkspaces(app, { workspaces, workspaceUsers, invitations });
      mountWorkspaceUsers(app, { service: workspaceUsers, invitations });
      mountServiceAccounts(app, serviceAccounts);
      mountApiKeys(app, { apiKeys, serviceAccounts });
    },
  };
}
