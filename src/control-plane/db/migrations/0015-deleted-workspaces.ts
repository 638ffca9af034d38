// Workspaces that were deleted earlier have left rows behind, sealed secrets among them: they go.
import { type Kysely, sql } from "kysely";

/** As they are when this migration runs; what refers to another comes before it. */
const tables = [
  "invitations",
  "members",
  "integration_connections",
  "policies",
  "features",
  "workspace_quotas",
  "workspace_images",
  "volume_template_versions",
  "volume_templates",
  "preview_tokens",
  "previews",
  "sandbox_connections",
  "idempotency_keys",
];

export async function up(db: Kysely<never>): Promise<void> {
  for (const table of tables) {
    await sql`delete from ${sql.table(table)}
      where workspace_id in (select id from workspaces where deleted_at is not null)`.execute(db);
  }
}
