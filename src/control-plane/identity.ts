// Composes the people, service accounts and what proves them: the nouns that every other one may ask who somebody is.
import { Revocations } from "./auth/revocations.ts";
import type { Database } from "./db/database.ts";
import { createServiceAccountService, type ServiceAccountService } from "./service-accounts/service.ts";
import { createServiceAccountStore } from "./service-accounts/store.ts";
import { createUserService, type UserService } from "./users/service.ts";
import { createUserStore } from "./users/store.ts";

export type Identity = {
  users: UserService;
  serviceAccounts: ServiceAccountService;
  /** Subscribe to end the tokens of a principal. */
  revocations: Revocations;
};

export function openIdentity({ database }: { database: Database }): Identity {
  const revocations = new Revocations();
  return {
    revocations,
    users: createUserService({ store: createUserStore(database), revocations }),
    serviceAccounts: createServiceAccountService({ store: createServiceAccountStore(database), revocations }),
  };
}
