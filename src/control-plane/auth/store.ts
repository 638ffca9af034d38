// Queries about credentials, who owns them, workspaces and memberships.
import type { Database } from "../db/database.ts";
import type { Role } from "./scopes.ts";

export type KeyRow = {
  key_id: string;
  expires_at: string | null;
  scopes: string | null;
  user_id: string | null;
  user_name: string | null;
  disabled_at: string | null;
  service_account_id: string | null;
  service_account_name: string | null;
  /** Of its own workspace; null when that is gone. */
  workspace_id: string | null;
  workspace: string | null;
  /** Null when its owner does not belong to that workspace. */
  role: Role | null;
};

export type MembershipRow = { workspace_id: string; workspace: string; role: Role };

export type AuthStore = ReturnType<typeof createAuthStore>;

export function createAuthStore(database: Database) {
  const key = database.prepareRememberedRead<KeyRow>(
    `select k.id as key_id, k.expires_at, k.scopes, k.user_id, u.name as user_name, u.disabled_at,
            k.service_account_id, s.name as service_account_name,
            k.workspace_id, w.name as workspace, coalesce(s.role, m.role) as role
       from api_keys k
       left join users u on u.id = k.user_id
       left join service_accounts s on s.id = k.service_account_id
       left join workspaces w on w.id = k.workspace_id and w.deleted_at is null
       left join members m on m.workspace_id = w.id and m.user_id = k.user_id
      where k.token_hash = ?`,
  );
  const user = database.prepareRememberedRead<{ name: string; disabled_at: string | null }>(
    "select name, disabled_at from users where id = ?",
  );
  const serviceAccount = database.prepareRememberedRead<MembershipRow & { name: string }>(
    `select s.name, s.role, s.workspace_id, w.name as workspace
       from service_accounts s join workspaces w on w.id = s.workspace_id and w.deleted_at is null
      where s.id = ?`,
  );
  const workspaceByName = database.prepareRememberedRead<{ id: string }>(
    "select id from workspaces where name = ? and deleted_at is null",
  );
  const workspaceById = database.prepareRememberedRead<{ name: string }>(
    "select name from workspaces where id = ? and deleted_at is null",
  );
  const membership = database.prepareRememberedRead<{ role: Role }>(
    "select role from members where workspace_id = ? and user_id = ?",
  );
  const memberships = database.prepareRead<MembershipRow>(
    `select m.workspace_id, w.name as workspace, m.role
       from members m join workspaces w on w.id = m.workspace_id
      where m.user_id = ? and w.deleted_at is null order by w.name limit 2`,
  );
  return {
    findKey: (tokenHash: string) => key.first(tokenHash),
    findUser: (id: string) => user.first(id),
    findServiceAccount: (id: string) => serviceAccount.first(id),
    findWorkspaceId: async (name: string) => (await workspaceByName.first(name))?.id,
    findWorkspaceName: async (id: string) => (await workspaceById.first(id))?.name,
    findRole: async (workspaceId: string, userId: string) => (await membership.first(workspaceId, userId))?.role,
    /** At most two: whether there is one, and only one. */
    findSomeMemberships: (userId: string) => memberships.all(userId),
  };
}
