// Queries about workspaces.
import type { Insertable, Updateable } from "kysely";
import type { Database, Queries } from "../db/database.ts";
import type { WorkspacesTable } from "../db/tables/workspaces.ts";
import { closeUsage } from "../sandboxes/usage.ts";
import { emptyWorkspace } from "./contents.ts";

export type WorkspaceStore = ReturnType<typeof createWorkspaceStore>;

export function createWorkspaceStore(database: Database) {
  const { kysely } = database;
  return {
    find: (id: string): Promise<WorkspacesTable | undefined> =>
      kysely
        .selectFrom("workspaces")
        .selectAll()
        .where("id", "=", id)
        .where("deleted_at", "is", null)
        .executeTakeFirst(),
    /** The names of deleted workspaces are altered: they are free. */
    findByName: (name: string): Promise<WorkspacesTable | undefined> =>
      kysely.selectFrom("workspaces").selectAll().where("name", "=", name).executeTakeFirst(),
    listOfUser: (userId: string, limit: number): Promise<WorkspacesTable[]> =>
      kysely
        .selectFrom("workspaces as w")
        .innerJoin("members as m", "m.workspace_id", "w.id")
        .selectAll("w")
        .where("m.user_id", "=", userId)
        .where("w.deleted_at", "is", null)
        .orderBy("w.name")
        .limit(limit)
        .execute(),
    /** With its first administrator. False when the name is taken. */
    async insert(row: Insertable<WorkspacesTable>, adminId: string): Promise<boolean> {
      return database.transactDurably(async (queries) => {
        const { numInsertedOrUpdatedRows } = await queries
          .insertInto("workspaces")
          .values(row)
          .onConflict((conflict) => conflict.column("name").doNothing())
          .executeTakeFirstOrThrow();
        if (Number(numInsertedOrUpdatedRows) === 0) return false;
        await queries
          .insertInto("members")
          .values({ workspace_id: row.id, user_id: adminId, role: "admin", created_at: row.created_at })
          .execute();
        return true;
      });
    },
    async update(id: string, changes: Updateable<WorkspacesTable>): Promise<WorkspacesTable | undefined> {
      const row = await kysely
        .updateTable("workspaces")
        .set(changes)
        .where("id", "=", id)
        .where("deleted_at", "is", null)
        .returningAll()
        .executeTakeFirst();
      await database.flush();
      return row;
    },
    /** False when it has sandboxes. Nothing is in it afterwards; its row stays for the records of what was. */
    remove: (id: string, at: string): Promise<boolean> =>
      database.transactDurably((queries) => removeFrom(queries, id, at)),
  };
}

async function removeFrom(queries: Queries, id: string, at: string): Promise<boolean> {
  if (!(await closeUsage(queries, id))) return false;
  await queries
    .updateTable("workspaces")
    // No caller can name a workspace so.
    .set({ deleted_at: at, name: `~${id}`, display_name: null, labels: null })
    .where("id", "=", id)
    .execute();
  await emptyWorkspace(queries, id);
  return true;
}
