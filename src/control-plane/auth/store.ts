// Queries about credentials, workspaces and memberships.
import type { Insertable } from "kysely";
import type { Database } from "../db/database.ts";
import type { ApiKeysTable } from "../db/tables/api-keys.ts";
import type { Role } from "./scopes.ts";

export type CredentialRow = {
  key_id: string;
  expires_at: string | null;
  revoked_at: string | null;
  user_id: string;
  user_name: string;
  workspace_id: string;
  workspace: string;
  role: Role;
};

export type AuthStore = ReturnType<typeof createAuthStore>;

export function createAuthStore(database: Database) {
  const credential = database.prepareRememberedRead<CredentialRow>(
    `select k.id as key_id, k.expires_at, k.revoked_at, k.user_id, u.name as user_name,
            k.workspace_id, w.name as workspace, m.role
       from api_keys k
       join users u on u.id = k.user_id
       join workspaces w on w.id = k.workspace_id
       join members m on m.workspace_id = k.workspace_id and m.user_id = k.user_id
      where k.token_hash = ?`,
  );
  const workspaceByName = database.prepareRememberedRead<{ id: string }>("select id from workspaces where name = ?");
  const workspaceById = database.prepareRememberedRead<{ name: string }>("select name from workspaces where id = ?");
  const membership = database.prepareRememberedRead<{ role: Role }>(
    "select role from members where workspace_id = ? and user_id = ?",
  );
  return {
    findCredential: (tokenHash: string) => credential.first(tokenHash),
    findWorkspaceId: async (name: string) => (await workspaceByName.first(name))?.id,
    findWorkspaceName: async (id: string) => (await workspaceById.first(id))?.name,
    findRole: async (workspaceId: string, userId: string) => (await membership.first(workspaceId, userId))?.role,
    async insertApiKey(row: Insertable<ApiKeysTable>): Promise<void> {
      await database.kysely.insertInto("api_keys").values(row).execute();
      await database.flush();
    },
    /** Whether the workspace has the key. Keeps the time of an earlier revocation. */
    async revokeApiKey(workspaceId: string, keyId: string, at: string): Promise<boolean> {
      const row = await database.kysely
        .updateTable("api_keys")
        .set((set) => ({ revoked_at: set.fn.coalesce("revoked_at", set.val(at)) }))
        .where("workspace_id", "=", workspaceId)
        .where("id", "=", keyId)
        .returning("id")
        .executeTakeFirst();
      await database.flush();
      return row !== undefined;
    },
  };
}
