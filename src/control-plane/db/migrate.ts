// Brings a database to the newest schema; the migrations are listed here, numbered and in order, and never change once released.
import { type Kysely, sql } from "kysely";
import { type Migration, Migrator } from "kysely/migration";
import { AppError } from "../../core/errors.ts";
import * as firstTables from "./migrations/0001-first-tables.ts";
import * as identity from "./migrations/0004-identity.ts";
import * as auditLog from "./migrations/0005-audit-log.ts";
import * as oauth from "./migrations/0006-oauth.ts";
import * as instancesAndQuotas from "./migrations/0007-instances-and-quotas.ts";
import * as integrationConnections from "./migrations/0008-integration-connections.ts";
import * as volumeTemplates from "./migrations/0009-volume-templates.ts";
import * as featuresAndPolicies from "./migrations/0010-features-and-policies.ts";
import * as lists from "./migrations/0011-lists.ts";
import * as generation from "./migrations/0012-generation.ts";
import * as previews from "./migrations/0013-previews.ts";
import * as previewTokenValues from "./migrations/0014-preview-token-values.ts";
import * as deletedWorkspaces from "./migrations/0015-deleted-workspaces.ts";
import type { Tables } from "./tables.ts";

const migrations: Record<string, Migration> = {
  "0001-first-tables": firstTables as Migration,
  "0004-identity": identity as Migration,
  "0005-audit-log": auditLog as Migration,
  "0006-oauth": oauth as Migration,
  "0007-instances-and-quotas": instancesAndQuotas as Migration,
  "0008-integration-connections": integrationConnections as Migration,
  "0009-volume-templates": volumeTemplates as Migration,
  "0010-features-and-policies": featuresAndPolicies as Migration,
  "0011-lists": lists as Migration,
  "0012-generation": generation as Migration,
  "0013-previews": previews as Migration,
  "0014-preview-token-values": previewTokenValues as Migration,
  "0015-deleted-workspaces": deletedWorkspaces as Migration,
};

/** Each migration runs in a transaction; a database that is newer than this program is refused. */
export async function migrate(db: Kysely<Tables>, dialect: "sqlite" | "postgres"): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => migrations } });
  const { error } = await migrator.migrateToLatest();
  if (error instanceof AppError) throw error;
  if (error !== undefined) throw new AppError("internal", "the database could not be migrated", { cause: error });
  if (dialect === "postgres") await compareTextByBytes(db);
}

/** Text is ordered by its bytes, as in SQLite, whatever language the database was made for: cursors and indexes rely on it. */
async function compareTextByBytes(db: Kysely<Tables>): Promise<void> {
  const { rows } = await sql<{ table_name: string; column_name: string }>`
    select c.table_name, c.column_name from information_schema.columns c
      join information_schema.tables t using (table_schema, table_name)
     where c.table_schema = current_schema() and t.table_type = 'BASE TABLE' and c.data_type = 'text'
       and c.collation_name is distinct from 'C'`.execute(db);
  if (rows.length === 0) return;
  await db.transaction().execute(async (queries) => {
    for (const { table_name, column_name } of rows) {
      await sql`alter table ${sql.table(table_name)} alter column ${sql.ref(column_name)} type text collate "C"`.execute(
        queries,
      );
    }
  });
}
