// Service accounts: made, changed and deleted by administrators of their workspace, recognised by client id and secret.
import type {
  NewServiceAccount,
  ServiceAccount,
  ServiceAccountChanges,
  ServiceAccountInput,
} from "../../contract/service-account.ts";
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import { type Caller, requireAllOf } from "../auth/caller.ts";
import type { Revocations } from "../auth/revocations.ts";
import type { Role } from "../auth/scopes.ts";
import { generateSecret, hashSecret, matchesHash } from "../auth/secrets.ts";
import type { ServiceAccountsTable } from "../db/tables/service-accounts.ts";
import type { ServiceAccountStore } from "./store.ts";

/** A service account as an OAuth client; `id` is what its tokens call the subject. */
export type Client = {
  id: string;
  clientId: string;
  name: string;
  workspaceId: string;
  workspace: string;
  role: Role;
};

export type ServiceAccountService = ReturnType<typeof createServiceAccountService>;

export const serviceAccountsMax = 500;
/** Compared with when there is no such client, so that the answer takes as long. */
const nobody = hashSecret("");

export function createServiceAccountService({
  store,
  revocations,
}: {
  store: ServiceAccountStore;
  revocations: Revocations;
}) {
  const findClient = async (clientId: string): Promise<(Client & { secretHash: string }) | undefined> => {
    const row = /^[a-z0-9]{16}$/.test(clientId) ? await store.findClient(clientId) : undefined;
    if (row === undefined) return undefined;
    const { id, name, role, secret_hash: secretHash, workspace_id: workspaceId, workspace } = row;
    return { id, clientId: id, name, workspaceId, workspace, role, secretHash };
  };
  return {
    async findClient(clientId: string): Promise<Client | undefined> {
      const found = await findClient(clientId);
      return found && withoutHash(found);
    },
    async verifySecret(clientId: string, secret: string): Promise<Client | undefined> {
      const found = await findClient(clientId);
      const matches = matchesHash(secret, found?.secretHash ?? nobody);
      return matches && found !== undefined ? withoutHash(found) : undefined;
    },
    list: async ({ workspaceId }: Caller): Promise<ServiceAccount[]> =>
      (await store.list(workspaceId, serviceAccountsMax)).map(present),
    /** Throws `not_found` unless the caller's workspace has it. */
    async get({ workspaceId }: Caller, clientId: string): Promise<ServiceAccount> {
      return present((await store.find(workspaceId, clientId)) ?? missing());
    },
    count: (workspaceId: string): Promise<number> => store.count(workspaceId),
    async create(caller: Caller, input: ServiceAccountInput): Promise<NewServiceAccount> {
      const role = input.role ?? "member";
      requireAllOf(role, caller);
      const secret = generateSecret("clientSecret");
      const now = new Date().toISOString();
      const row: ServiceAccountsTable = {
        id: randomToken(16),
        workspace_id: caller.workspaceId,
        name: input.name,
        description: input.description ?? "",
        role,
        secret_hash: hashSecret(secret),
        created_at: now,
        updated_at: now,
        created_by: caller.principalName,
        updated_by: caller.principalName,
      };
      if (!(await store.insert(row, serviceAccountsMax))) {
        throw new AppError("conflict", `A workspace has at most ${serviceAccountsMax} service accounts.`);
      }
      return { ...present(row), client_secret: secret };
    },
    async update(caller: Caller, clientId: string, input: ServiceAccountChanges): Promise<ServiceAccount> {
      const { role, ...changes } = input;
      const before = (await store.find(caller.workspaceId, clientId)) ?? missing();
      // A role that is sent back as it was is not written: it may have changed since.
      const given = role === undefined || role === before.role ? undefined : role;
      if (given !== undefined) requireAllOf(given, caller);
      const row = await store.update(caller.workspaceId, clientId, {
        ...changes,
        ...(given !== undefined && { role: given }),
        updated_at: new Date().toISOString(),
        updated_by: caller.principalName,
      });
      return present(row ?? missing());
    },
    /** Resolves once neither its keys nor its tokens are accepted any more. */
    async remove(caller: Caller, clientId: string): Promise<ServiceAccount> {
      const row = (await store.remove(caller.workspaceId, clientId)) ?? missing();
      await revocations.announce(row.id);
      return present(row);
    },
  };
}

function withoutHash({ secretHash: _, ...client }: Client & { secretHash: string }): Client {
  return client;
}

function missing(): never {
  throw new AppError("not_found", "There is no such service account.");
}

function present({ id, name, description, role, created_at, updated_at }: ServiceAccountsTable): ServiceAccount {
  return { client_id: id, name, description, role, created_at, updated_at };
}
