// The first tables: workspaces, people and their keys, sandboxes with their events, idempotency keys.
import { type Kysely, sql } from "kysely";

async function createPeople(db: Kysely<never>): Promise<void> {
  await db.schema
    .createTable("installation")
    .addColumn("id", "integer", (column) => column.primaryKey())
    .addColumn("seal_key_id", "text", (column) => column.notNull())
    .addColumn("created_at", "text", (column) => column.notNull())
    .execute();
  await db.schema
    .createTable("workspaces")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("name", "text", (column) => column.notNull().unique())
    .addColumn("created_at", "text", (column) => column.notNull())
    .execute();
  await db.schema
    .createTable("users")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("created_at", "text", (column) => column.notNull())
    .execute();
  await db.schema
    .createTable("members")
    .addColumn("workspace_id", "text", (column) => column.notNull().references("workspaces.id"))
    .addColumn("user_id", "text", (column) => column.notNull().references("users.id"))
    .addColumn("role", "text", (column) => column.notNull())
    .addColumn("created_at", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("members_pk", ["workspace_id", "user_id"])
    .execute();
  await db.schema
    .createTable("api_keys")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("workspace_id", "text", (column) => column.notNull().references("workspaces.id"))
    .addColumn("user_id", "text", (column) => column.notNull().references("users.id"))
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("token_hash", "text", (column) => column.notNull().unique())
    .addColumn("created_at", "text", (column) => column.notNull())
    .addColumn("expires_at", "text")
    .addColumn("revoked_at", "text")
    .execute();
}

async function createSandboxes(db: Kysely<never>): Promise<void> {
  await db.schema
    .createTable("sandboxes")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("workspace_id", "text", (column) => column.notNull().references("workspaces.id"))
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("revision", "integer", (column) => column.notNull())
    .addColumn("status", "text", (column) => column.notNull())
    .addColumn("holds_name", "integer", (column) => column.notNull())
    .addColumn("display_name", "text")
    .addColumn("external_id", "text")
    .addColumn("labels", "text")
    .addColumn("spec", "text", (column) => column.notNull())
    .addColumn("sealed_envs", "text")
    .addColumn("enabled", "integer", (column) => column.notNull())
    .addColumn("errors", "text")
    .addColumn("created_at", "text", (column) => column.notNull())
    .addColumn("updated_at", "text", (column) => column.notNull())
    .addColumn("created_by", "text", (column) => column.notNull())
    .addColumn("updated_by", "text", (column) => column.notNull())
    .addColumn("terminated_at", "text")
    .addColumn("retention_ms", "bigint", (column) => column.notNull())
    .execute();
  const index = (name: string) => db.schema.createIndex(name).on("sandboxes");
  await index("sandboxes_held_name")
    .unique()
    .columns(["workspace_id", "name"])
    .where(sql.ref("holds_name"), "=", sql.lit(1))
    .execute();
  await index("sandboxes_by_name").columns(["workspace_id", "name", "holds_name", "created_at"]).execute();
  await index("sandboxes_by_time").columns(["workspace_id", "created_at", "id"]).execute();
  await index("sandboxes_by_external_id").columns(["workspace_id", "external_id"]).execute();
  await index("sandboxes_by_status").columns(["status", "id"]).execute();
}

export async function up(db: Kysely<never>): Promise<void> {
  await createPeople(db);
  await createSandboxes(db);
  await db.schema
    .createTable("sandbox_events")
    .addColumn("sandbox_id", "text", (column) => column.notNull().references("sandboxes.id").onDelete("cascade"))
    .addColumn("seq", "integer", (column) => column.notNull())
    .addColumn("time", "text", (column) => column.notNull())
    .addColumn("type", "text", (column) => column.notNull())
    .addColumn("status", "text", (column) => column.notNull())
    .addColumn("message", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("sandbox_events_pk", ["sandbox_id", "seq"])
    .execute();
  await db.schema
    .createTable("idempotency_keys")
    .addColumn("workspace_id", "text", (column) => column.notNull().references("workspaces.id"))
    .addColumn("principal_id", "text", (column) => column.notNull())
    .addColumn("key", "text", (column) => column.notNull())
    .addColumn("fingerprint", "text", (column) => column.notNull())
    .addColumn("sandbox_id", "text", (column) => column.notNull())
    .addColumn("sealed_answer", "text")
    .addColumn("created_at", "text", (column) => column.notNull())
    .addColumn("expires_at", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("idempotency_keys_pk", ["workspace_id", "principal_id", "key"])
    .execute();
  await db.schema.createIndex("idempotency_keys_by_expiry").on("idempotency_keys").column("expires_at").execute();
  await db.schema.createIndex("idempotency_keys_by_sandbox").on("idempotency_keys").column("sandbox_id").execute();
}
