// Queries about integration connections.
import { countRows } from "../db/count-rows.ts";
import type { Database, Queries } from "../db/database.ts";
import { lockWorkspace } from "../db/lock-workspace.ts";
import { type ConnectionRecord, type ConnectionRow, fromRow, toRow } from "./record.ts";

export type ConnectionStore = ReturnType<typeof createConnectionStore>;

export function createConnectionStore(database: Database) {
  return { ...createReads(database), ...createChanges(database) };
}

function createReads(database: Database) {
  const { kysely } = database;
  const byName = database.prepareRead<ConnectionRow>(
    "select * from integration_connections where workspace_id = ? and name = ?",
  );
  return {
    async findByName(workspaceId: string, name: string): Promise<ConnectionRecord | undefined> {
      const row = await byName.first(workspaceId, name);
      return row && fromRow(row);
    },

    /** Newest first. */
    async list(workspaceId: string): Promise<ConnectionRecord[]> {
      const rows = await kysely
        .selectFrom("integration_connections")
        .selectAll()
        .where("workspace_id", "=", workspaceId)
        .orderBy("created_at", "desc")
        .orderBy("name")
        .execute();
      return rows.map(fromRow);
    },
  };
}

/** Each resolves when its change would survive a loss of power. */
function createChanges(database: Database) {
  const { kysely } = database;
  return {
    async insert(record: ConnectionRecord, max: number): Promise<"inserted" | "taken" | "full"> {
      return database.transactDurably((queries) => insert(queries, record, max));
    },

    /** Whether it still had the revision before this one, and so was replaced. */
    async replace(record: ConnectionRecord): Promise<boolean> {
      const replaced = await kysely
        .updateTable("integration_connections")
        .set(toRow(record))
        .where("workspace_id", "=", record.workspaceId)
        .where("id", "=", record.id)
        .where("revision", "=", record.revision - 1)
        .returning("id")
        .executeTakeFirst();
      if (replaced !== undefined) await database.flush();
      return replaced !== undefined;
    },

    /** Whether it was there. */
    async remove(workspaceId: string, id: string): Promise<boolean> {
      const removed = await kysely
        .deleteFrom("integration_connections")
        .where("workspace_id", "=", workspaceId)
        .where("id", "=", id)
        .returning("id")
        .executeTakeFirst();
      if (removed !== undefined) await database.flush();
      return removed !== undefined;
    },
  };
}

async function insert(queries: Queries, record: ConnectionRecord, max: number): Promise<"inserted" | "taken" | "full"> {
  await lockWorkspace(queries, record.workspaceId);
  const present = queries.selectFrom("integration_connections").where("workspace_id", "=", record.workspaceId);
  if ((await countRows(present)) >= max) return "full";
  const inserted = await queries
    .insertInto("integration_connections")
    .values(toRow(record))
    .onConflict((conflict) => conflict.columns(["workspace_id", "name"]).doNothing())
    .returning("id")
    .executeTakeFirst();
  return inserted === undefined ? "taken" : "inserted";
}
