// Volume templates and their versions.
import type { Kysely } from "kysely";

export async function up(db: Kysely<never>): Promise<void> {
  await db.schema
    .createTable("volume_templates")
    .addColumn("workspace_id", "text", (column) => column.notNull().references("workspaces.id"))
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("id", "text", (column) => column.notNull().unique())
    .addColumn("display_name", "text")
    .addColumn("external_id", "text")
    .addColumn("labels", "text")
    .addColumn("default_size_mb", "integer")
    .addColumn("description", "text")
    .addColumn("versions_numbered", "integer", (column) => column.notNull())
    .addColumn("created_at", "text", (column) => column.notNull())
    .addColumn("updated_at", "text", (column) => column.notNull())
    .addColumn("created_by", "text", (column) => column.notNull())
    .addColumn("updated_by", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("volume_templates_pk", ["workspace_id", "name"])
    .execute();
  await db.schema
    .createTable("volume_template_versions")
    .addColumn("workspace_id", "text", (column) => column.notNull().references("workspaces.id"))
    .addColumn("template_id", "text", (column) => column.notNull().references("volume_templates.id"))
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("version_id", "text", (column) => column.notNull().unique())
    .addColumn("numbered", "integer", (column) => column.notNull())
    .addColumn("status", "text", (column) => column.notNull())
    .addColumn("message", "text")
    .addColumn("bucket", "text", (column) => column.notNull())
    .addColumn("object_key", "text")
    .addColumn("content_size", "bigint", (column) => column.notNull())
    .addColumn("created_at", "text", (column) => column.notNull())
    .addColumn("uploaded_at", "text")
    .addColumn("awaited_until", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("volume_template_versions_pk", ["workspace_id", "template_id", "name"])
    .execute();
  const index = (name: string) => db.schema.createIndex(name).on("volume_template_versions");
  await index("volume_template_versions_by_object").column("object_key").execute();
  await index("volume_template_versions_awaited").columns(["status", "awaited_until"]).execute();
}
