// Values of previews' tokens are kept, sealed; tokens from before have none.
import type { Kysely } from "kysely";

export async function up(db: Kysely<never>): Promise<void> {
  await db.schema.alterTable("preview_tokens").addColumn("sealed_value", "text").execute();
}
