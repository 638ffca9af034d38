// Previews of sandboxes and their tokens.
import type { Kysely } from "kysely";

export async function up(db: Kysely<never>): Promise<void> {
  await db.schema
    .createTable("previews")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("workspace_id", "text", (column) => column.notNull().references("workspaces.id").onDelete("cascade"))
    .addColumn("sandbox_id", "text", (column) => column.notNull().references("sandboxes.id").onDelete("cascade"))
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("revision", "integer", (column) => column.notNull())
    .addColumn("label", "text", (column) => column.notNull())
    .addColumn("display_name", "text")
    .addColumn("port", "integer", (column) => column.notNull())
    .addColumn("is_public", "integer", (column) => column.notNull())
    .addColumn("spec", "text", (column) => column.notNull())
    .addColumn("expires_at", "text")
    .addColumn("events", "text", (column) => column.notNull())
    .addColumn("created_at", "text", (column) => column.notNull())
    .addColumn("updated_at", "text", (column) => column.notNull())
    .addColumn("created_by", "text", (column) => column.notNull())
    .addColumn("updated_by", "text", (column) => column.notNull())
    .addUniqueConstraint("previews_label", ["label"])
    .addUniqueConstraint("previews_name", ["sandbox_id", "name"])
    .execute();
  await db.schema.createIndex("previews_by_expiry").on("previews").column("expires_at").execute();
  await db.schema.createIndex("previews_by_workspace").on("previews").column("workspace_id").execute();
  await db.schema
    .createTable("preview_tokens")
    .addColumn("workspace_id", "text", (column) => column.notNull().references("workspaces.id").onDelete("cascade"))
    .addColumn("preview_id", "text", (column) => column.notNull().references("previews.id").onDelete("cascade"))
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("token_hash", "text", (column) => column.notNull())
    .addColumn("expires_at", "text")
    .addColumn("created_at", "text", (column) => column.notNull())
    .addColumn("created_by", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("preview_tokens_pk", ["preview_id", "name"])
    .addUniqueConstraint("preview_tokens_hash", ["preview_id", "token_hash"])
    .execute();
  await db.schema.createIndex("preview_tokens_by_workspace").on("preview_tokens").column("workspace_id").execute();
}
