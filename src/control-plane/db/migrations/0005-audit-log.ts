// Who changed what, and who was refused.
import type { Kysely } from "kysely";

export async function up(db: Kysely<never>): Promise<void> {
  await db.schema
    .createTable("audit_log")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("at", "text", (column) => column.notNull())
    .addColumn("workspace_id", "text")
    .addColumn("workspace", "text")
    .addColumn("principal_id", "text")
    .addColumn("principal_name", "text")
    .addColumn("principal_kind", "text")
    .addColumn("credential_id", "text")
    .addColumn("operation", "text", (column) => column.notNull())
    .addColumn("resource", "text")
    .addColumn("status", "integer", (column) => column.notNull())
    .addColumn("error", "text")
    .addColumn("address", "text")
    .addColumn("request_id", "text", (column) => column.notNull())
    .execute();
  await db.schema.createIndex("audit_log_by_workspace").on("audit_log").columns(["workspace_id", "id"]).execute();
}
