// Features set by the operator, policies, which workspace has used which image, and changes of the sealing key.
import type { Kysely } from "kysely";

export async function up(db: Kysely<never>): Promise<void> {
  await db.schema
    .createTable("features")
    .addColumn("workspace_id", "text", (column) => column.notNull().references("workspaces.id").onDelete("cascade"))
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("enabled", "integer", (column) => column.notNull())
    .addColumn("variant", "text")
    .addColumn("payload", "text")
    .addColumn("updated_at", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("features_pk", ["workspace_id", "name"])
    .execute();
  await db.schema
    .createTable("policies")
    .addColumn("workspace_id", "text", (column) => column.notNull().references("workspaces.id").onDelete("cascade"))
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("id", "text", (column) => column.notNull())
    .addColumn("display_name", "text")
    .addColumn("external_id", "text")
    .addColumn("labels", "text")
    .addColumn("spec", "text", (column) => column.notNull())
    .addColumn("created_at", "text", (column) => column.notNull())
    .addColumn("updated_at", "text", (column) => column.notNull())
    .addColumn("created_by", "text", (column) => column.notNull())
    .addColumn("updated_by", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("policies_pk", ["workspace_id", "name"])
    .execute();
  await db.schema
    .createTable("workspace_images")
    .addColumn("workspace_id", "text", (column) => column.notNull().references("workspaces.id").onDelete("cascade"))
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("first_used_at", "text", (column) => column.notNull())
    .addColumn("last_used_at", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("workspace_images_pk", ["workspace_id", "name"])
    .execute();
  await db.schema.alterTable("installation").addColumn("previous_seal_key_id", "text").execute();
  await db.schema.createIndex("workspace_images_by_name").on("workspace_images").column("name").execute();
}
