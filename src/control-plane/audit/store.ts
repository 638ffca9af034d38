// Queries about the audit log.
import type { Database, Queries } from "../db/database.ts";
import type { AuditLogTable } from "../db/tables/audit-log.ts";

export type AuditFilter = {
  /** Undefined: of all workspaces and of none. */
  workspaceId: string | undefined;
  principalId: string | undefined;
  /** Ids before this one, and from this one on. */
  before: string | undefined;
  from: string | undefined;
};

export type AuditStore = ReturnType<typeof createAuditStore>;

/** Rows in one statement: databases limit the values of one. */
const rowsPerInsert = 50;

export function createAuditStore(database: Database) {
  const { kysely } = database;
  return {
    /** Resolves once the rows are durable. */
    async insert(rows: readonly AuditLogTable[]): Promise<void> {
      if (rows.length <= rowsPerInsert) await kysely.insertInto("audit_log").values(rows).execute();
      else await database.transact((queries) => insertPortions(queries, rows));
      await database.flush();
    },
    list({ workspaceId, principalId, before, from }: AuditFilter, limit: number): Promise<AuditLogTable[]> {
      let query = kysely.selectFrom("audit_log").selectAll();
      if (workspaceId !== undefined) query = query.where("workspace_id", "=", workspaceId);
      if (principalId !== undefined) query = query.where("principal_id", "=", principalId);
      if (before !== undefined) query = query.where("id", "<", before);
      if (from !== undefined) query = query.where("id", ">=", from);
      return query.orderBy("id", "desc").limit(limit).execute();
    },
    /** Removes the oldest entries before an id, a portion at a time; resolves to how many. */
    async purge(before: string, portion: number): Promise<number> {
      const { numDeletedRows } = await kysely
        .deleteFrom("audit_log")
        .where("id", "in", (select) =>
          select.selectFrom("audit_log").select("id").where("id", "<", before).orderBy("id").limit(portion),
        )
        .executeTakeFirstOrThrow();
      return Number(numDeletedRows);
    },
    /** The id of the oldest of the newest `keep` entries, if there are as many. */
    async findOldestOf(keep: number): Promise<string | undefined> {
      const row = await kysely
        .selectFrom("audit_log")
        .select("id")
        .orderBy("id", "desc")
        .offset(keep - 1)
        .limit(1)
        .executeTakeFirst();
      return row?.id;
    },
  };
}

async function insertPortions(queries: Queries, rows: readonly AuditLogTable[]): Promise<void> {
  for (let start = 0; start < rows.length; start += rowsPerInsert) {
    const portion = rows.slice(start, start + rowsPerInsert);
    await queries.insertInto("audit_log").values(portion).execute();
  }
}
