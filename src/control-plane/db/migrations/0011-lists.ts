// Lists that cost the same however long they are: counts kept by triggers, an index for each order, text to search in.
import { type Kysely, PostgresAdapter, sql } from "kysely";

/** The columns as they are when this migration runs. */
type Before = {
  sandboxes: {
    id: string;
    workspace_id: string;
    instance_id: string;
    display_name: string | null;
    labels: string | null;
    search_text: string | null;
    terminated_at: string | null;
    retention_ms: number;
    forget_at: string | null;
  };
};

const chunk = 1_000;

async function indexSandboxes(db: Kysely<Before>): Promise<void> {
  await db.schema.alterTable("sandboxes").addColumn("search_text", "text").execute();
  await db.schema.alterTable("sandboxes").addColumn("forget_at", "text").execute();
  await db.schema.dropIndex("sandboxes_by_time").execute();
  await db.schema.dropIndex("sandboxes_by_external_id").execute();
  for (const [order, column] of [
    ["time", "created_at"],
    ["name", "name"],
  ] as const) {
    const index = (name: string) => db.schema.createIndex(name).on("sandboxes");
    await index(`sandboxes_by_status_and_${order}`).columns(["workspace_id", "status", column, "id"]).execute();
    await index(`sandboxes_by_external_id_and_${order}`)
      .columns(["workspace_id", "external_id", "status", column, "id"])
      .where(sql<boolean>`external_id is not null`)
      .execute();
  }
  await db.schema.createIndex("sandboxes_by_instance").on("sandboxes").column("instance_id").execute();
  await db.schema
    .createIndex("sandboxes_to_forget")
    .on("sandboxes")
    .columns(["forget_at", "id"])
    .where(sql<boolean>`forget_at is not null`)
    .execute();
}

/** As `searchTextOf` in sandboxes writes it at the time of this migration. */
function searchTextOf(displayName: string | null, labels: string | null): string | null {
  const pairs = labels === null ? [] : Object.entries(JSON.parse(labels) as Record<string, string>).flat();
  const pieces = [...(displayName === null ? [] : [displayName]), ...pairs];
  if (pieces.length === 0) return null;
  return pieces.map((text) => text.toLowerCase().replaceAll(/[\0\x1f]/g, " ")).join("\x1f");
}

async function fillColumns(db: Kysely<Before>): Promise<void> {
  for (let after = ""; ; ) {
    const rows = await db
      .selectFrom("sandboxes")
      .select(["id", "display_name", "labels", "terminated_at", "retention_ms"])
      .where("id", ">", after)
      .orderBy("id")
      .limit(chunk)
      .execute();
    for (const { id, display_name, labels, terminated_at: gone, retention_ms } of rows) {
      const forgetAt = gone === null ? null : new Date(Date.parse(gone) + retention_ms).toISOString();
      await db
        .updateTable("sandboxes")
        .set({ search_text: searchTextOf(display_name, labels), forget_at: forgetAt })
        .where("id", "=", id)
        .execute();
    }
    const last = rows.at(-1);
    if (last === undefined) return;
    after = last.id;
  }
}

async function countOnSqlite(db: Kysely<Before>): Promise<void> {
  const add = sql.raw(`insert into sandbox_counts (workspace_id, status, shard, count)
    values (new.workspace_id, new.status, 0, 1) on conflict (workspace_id, status, shard) do update set count = count + 1`);
  const subtract = sql.raw(`update sandbox_counts set count = count - 1
    where workspace_id = old.workspace_id and status = old.status and shard = 0`);
  await sql`create trigger sandbox_counts_insert after insert on sandboxes begin ${add}; end`.execute(db);
  await sql`create trigger sandbox_counts_update after update of status, workspace_id on sandboxes
    when old.status <> new.status or old.workspace_id <> new.workspace_id begin ${subtract}; ${add}; end`.execute(db);
  await sql`create trigger sandbox_counts_delete after delete on sandboxes begin ${subtract}; end`.execute(db);
}

/** Once a statement, in one order of rows: transactions that change several counts do not wait for each other in a circle. */
async function countOnPostgres(db: Kysely<Before>): Promise<void> {
  const added = "select workspace_id, status, ascii(right(id, 1)) % 16 as shard, 1 as change from new_rows";
  const removed = "select workspace_id, status, ascii(right(id, 1)) % 16 as shard, -1 as change from old_rows";
  const triggers = {
    insert: [added, "new table as new_rows"],
    update: [`${added} union all ${removed}`, "old table as old_rows new table as new_rows"],
    delete: [removed, "old table as old_rows"],
  };
  for (const [event, [changes, tables]] of Object.entries(triggers)) {
    await sql
      .raw(`create function sandbox_counts_${event}() returns trigger language plpgsql as $$ begin
        insert into sandbox_counts (workspace_id, status, shard, count)
          select workspace_id, status, shard, sum(change) from (${changes}) as changes
           group by workspace_id, status, shard having sum(change) <> 0 order by workspace_id, status, shard
          on conflict (workspace_id, status, shard) do update set count = sandbox_counts.count + excluded.count;
        return null;
      end $$`)
      .execute(db);
    await sql
      .raw(`create trigger sandbox_counts_${event} after ${event} on sandboxes referencing ${tables}
        for each statement execute function sandbox_counts_${event}()`)
      .execute(db);
  }
}

export async function up(db: Kysely<Before>): Promise<void> {
  await indexSandboxes(db);
  await fillColumns(db);
  await db.schema
    .createTable("sandbox_counts")
    .addColumn("workspace_id", "text", (column) => column.notNull().references("workspaces.id").onDelete("cascade"))
    .addColumn("status", "text", (column) => column.notNull())
    .addColumn("shard", "integer", (column) => column.notNull())
    .addColumn("count", "bigint", (column) => column.notNull())
    .addPrimaryKeyConstraint("sandbox_counts_pk", ["workspace_id", "status", "shard"])
    .execute();
  await sql`insert into sandbox_counts (workspace_id, status, shard, count)
    select workspace_id, status, 0, count(*) from sandboxes group by workspace_id, status`.execute(db);
  if (db.getExecutor().adapter instanceof PostgresAdapter) await countOnPostgres(db);
  else await countOnSqlite(db);
}
