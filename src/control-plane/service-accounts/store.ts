// Queries about service accounts.
import type { Insertable, Updateable } from "kysely";
import type { Role } from "../auth/scopes.ts";
import { countRows } from "../db/count-rows.ts";
import type { Database, Queries } from "../db/database.ts";
import { lockWorkspace } from "../db/lock-workspace.ts";
import type { ServiceAccountsTable } from "../db/tables/service-accounts.ts";

export type ServiceAccountStore = ReturnType<typeof createServiceAccountStore>;

export type ClientRow = {
  id: string;
  name: string;
  role: Role;
  secret_hash: string;
  workspace_id: string;
  workspace: string;
};

export function createServiceAccountStore(database: Database) {
  const { kysely } = database;
  const client = database.prepareRememberedRead<ClientRow>(
    `select s.id, s.name, s.role, s.secret_hash, s.workspace_id, w.name as workspace
       from service_accounts s join workspaces w on w.id = s.workspace_id
      where s.id = ?`,
  );
  const ofWorkspace = (workspaceId: string, id: string) =>
    kysely.selectFrom("service_accounts").where("workspace_id", "=", workspaceId).where("id", "=", id);
  return {
    findClient: async (id: string) => client.first(id),
    find: (workspaceId: string, id: string): Promise<ServiceAccountsTable | undefined> =>
      ofWorkspace(workspaceId, id).selectAll().executeTakeFirst(),
    list: (workspaceId: string, limit: number): Promise<ServiceAccountsTable[]> =>
      kysely
        .selectFrom("service_accounts")
        .selectAll()
        .where("workspace_id", "=", workspaceId)
        .orderBy("created_at")
        .orderBy("id")
        .limit(limit)
        .execute(),
    count: (workspaceId: string): Promise<number> => count(kysely, workspaceId),
    /** False when the workspace has `max` already. */
    async insert(row: Insertable<ServiceAccountsTable>, max: number): Promise<boolean> {
      return database.transactDurably(async (queries) => {
        await lockWorkspace(queries, row.workspace_id);
        if ((await count(queries, row.workspace_id)) >= max) return false;
        await queries.insertInto("service_accounts").values(row).execute();
        return true;
      });
    },
    async update(
      workspaceId: string,
      id: string,
      changes: Updateable<ServiceAccountsTable>,
    ): Promise<ServiceAccountsTable | undefined> {
      const row = await kysely
        .updateTable("service_accounts")
        .set(changes)
        .where("workspace_id", "=", workspaceId)
        .where("id", "=", id)
        .returningAll()
        .executeTakeFirst();
      await database.flush();
      return row;
    },
    /** Takes its keys along. */
    async remove(workspaceId: string, id: string): Promise<ServiceAccountsTable | undefined> {
      const row = await kysely
        .deleteFrom("service_accounts")
        .where("workspace_id", "=", workspaceId)
        .where("id", "=", id)
        .returningAll()
        .executeTakeFirst();
      await database.flush();
      return row;
    },
  };
}

function count(queries: Queries, workspaceId: string): Promise<number> {
  return countRows(queries.selectFrom("service_accounts").where("workspace_id", "=", workspaceId));
}
