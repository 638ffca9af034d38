// Sandboxes have an instance per incarnation and may be between two of them; what a workspace uses is counted, and has limits of its own.
import { type Kysely, sql } from "kysely";

/** The columns as they are when this migration runs. */
type Before = {
  sandboxes: {
    id: string;
    workspace_id: string;
    spec: string;
    holds_name: number;
    instance_id: string;
    memory_mb: number;
  };
  workspace_usage: { workspace_id: string; sandboxes: number; memory_mb: number };
};

async function extendSandboxes(db: Kysely<Before>): Promise<void> {
  const alter = () => db.schema.alterTable("sandboxes");
  await alter()
    .addColumn("instance_id", "text", (column) => column.notNull().defaultTo(""))
    .execute();
  await alter().addColumn("next_instance_id", "text").execute();
  await alter()
    .addColumn("memory_mb", "integer", (column) => column.notNull().defaultTo(0))
    .execute();
  await db
    .updateTable("sandboxes")
    .set((set) => ({ instance_id: set.ref("id") }))
    .execute();
  await db.schema
    .createIndex("sandboxes_between_instances")
    .on("sandboxes")
    .column("id")
    .where(sql<boolean>`next_instance_id is not null`)
    .execute();
}

async function createTables(db: Kysely<Before>): Promise<void> {
  await db.schema
    .createTable("sandbox_connections")
    .addColumn("workspace_id", "text", (column) => column.notNull())
    .addColumn("connection_name", "text", (column) => column.notNull())
    .addColumn("sandbox_id", "text", (column) => column.notNull().references("sandboxes.id").onDelete("cascade"))
    .addPrimaryKeyConstraint("sandbox_connections_pk", ["workspace_id", "connection_name", "sandbox_id"])
    .execute();
  await db.schema
    .createIndex("sandbox_connections_by_sandbox")
    .on("sandbox_connections")
    .column("sandbox_id")
    .execute();
  const ofWorkspace = (table: string) =>
    db.schema
      .createTable(table)
      .addColumn("workspace_id", "text", (column) => column.notNull().references("workspaces.id").onDelete("cascade"));
  await ofWorkspace("workspace_usage")
    .addColumn("sandboxes", "integer", (column) => column.notNull())
    .addColumn("memory_mb", "bigint", (column) => column.notNull())
    .addPrimaryKeyConstraint("workspace_usage_pk", ["workspace_id"])
    .execute();
  await ofWorkspace("workspace_quotas")
    .addColumn("resource_type", "text", (column) => column.notNull())
    .addColumn("value", "bigint", (column) => column.notNull())
    .addColumn("updated_at", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("workspace_quotas_pk", ["workspace_id", "resource_type"])
    .execute();
}

async function countUsage(db: Kysely<Before>): Promise<void> {
  const rows = await db.selectFrom("sandboxes").select(["id", "workspace_id", "spec", "holds_name"]).execute();
  const usage = new Map<string, { sandboxes: number; memory_mb: number }>();
  for (const { id, workspace_id, spec, holds_name } of rows) {
    const { runtime } = JSON.parse(spec) as { runtime?: { memory?: number } };
    const memoryMb = runtime?.memory ?? 0;
    await db.updateTable("sandboxes").set({ memory_mb: memoryMb }).where("id", "=", id).execute();
    if (holds_name === 0) continue;
    const counted = usage.get(workspace_id) ?? { sandboxes: 0, memory_mb: 0 };
    usage.set(workspace_id, { sandboxes: counted.sandboxes + 1, memory_mb: counted.memory_mb + memoryMb });
  }
  for (const [workspace_id, counted] of usage) {
    await db
      .insertInto("workspace_usage")
      .values({ workspace_id, ...counted })
      .execute();
  }
}

export async function up(db: Kysely<Before>): Promise<void> {
  await extendSandboxes(db);
  await createTables(db);
  await countUsage(db);
}
