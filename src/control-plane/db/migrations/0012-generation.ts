// The installation counts its passes, so that a database that was restored from an older copy can be told.
import type { Kysely } from "kysely";

export async function up(db: Kysely<never>): Promise<void> {
  await db.schema
    .alterTable("installation")
    .addColumn("generation", "bigint", (column) => column.notNull().defaultTo(0))
    .execute();
}
