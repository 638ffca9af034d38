// Brings a database to the newest schema; the migrations are listed here, numbered and in order, and never change once released.
import type { Kysely } from "kysely";
import { type Migration, Migrator } from "kysely/migration";
import { AppError } from "../../core/errors.ts";
import * as firstTables from "./migrations/0001-first-tables.ts";
import * as identity from "./migrations/0004-identity.ts";
import * as integrationConnections from "./migrations/0008-integration-connections.ts";
import * as featuresAndPolicies from "./migrations/0010-features-and-policies.ts";
import type { Tables } from "./tables.ts";

const migrations: Record<string, Migration> = {
  "0001-first-tables": firstTables as Migration,
  "0004-identity": identity as Migration,
  "0008-integration-connections": integrationConnections as Migration,
  "0010-features-and-policies": featuresAndPolicies as Migration,
};

/** Each migration runs in a transaction; a database that is newer than this program is refused. */
export async function migrate(db: Kysely<Tables>): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => migrations } });
  const { error } = await migrator.migrateToLatest();
  if (error !== undefined) throw new AppError("internal", "the database could not be migrated", { cause: error });
}
