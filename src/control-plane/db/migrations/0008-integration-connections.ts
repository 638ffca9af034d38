// Integration connections.
import type { Kysely } from "kysely";

export async function up(db: Kysely<never>): Promise<void> {
  await db.schema
    .createTable("integration_connections")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("workspace_id", "text", (column) => column.notNull().references("workspaces.id"))
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("revision", "integer", (column) => column.notNull())
    .addColumn("display_name", "text")
    .addColumn("external_id", "text")
    .addColumn("labels", "text")
    .addColumn("integration", "text")
    .addColumn("sandbox", "integer")
    .addColumn("config", "text")
    .addColumn("secret_keys", "text")
    .addColumn("sealed_secret", "text")
    .addColumn("created_at", "text", (column) => column.notNull())
    .addColumn("updated_at", "text", (column) => column.notNull())
    .addColumn("created_by", "text", (column) => column.notNull())
    .addColumn("updated_by", "text", (column) => column.notNull())
    .addUniqueConstraint("integration_connections_name", ["workspace_id", "name"])
    .execute();
}
