// OAuth 2.0: what the server remembers, its signing keys, and registered clients.
import type { Kysely } from "kysely";

export async function up(db: Kysely<never>): Promise<void> {
  await db.schema
    .createTable("oauth_records")
    .addColumn("model", "text", (column) => column.notNull())
    .addColumn("id", "text", (column) => column.notNull())
    .addColumn("grant_id", "text")
    .addColumn("uid", "text")
    .addColumn("user_code", "text")
    .addColumn("subject_id", "text")
    .addColumn("client_id", "text")
    .addColumn("sealed_payload", "text", (column) => column.notNull())
    .addColumn("consumed_at", "text")
    .addColumn("expires_at", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("oauth_records_pk", ["model", "id"])
    .execute();
  const index = (name: string) => db.schema.createIndex(name).on("oauth_records");
  await index("oauth_records_by_grant").column("grant_id").execute();
  await index("oauth_records_by_uid").column("uid").execute();
  await index("oauth_records_by_user_code").column("user_code").execute();
  await index("oauth_records_by_subject").column("subject_id").execute();
  await index("oauth_records_by_client").column("client_id").execute();
  await index("oauth_records_by_expiry").column("expires_at").execute();
  await db.schema
    .createTable("oauth_signing_keys")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("public_key", "text", (column) => column.notNull())
    .addColumn("sealed_private_key", "text", (column) => column.notNull())
    .addColumn("created_at", "text", (column) => column.notNull())
    .addColumn("active_at", "text", (column) => column.notNull())
    .execute();
  await db.schema
    .createTable("oauth_clients")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("secret_hash", "text")
    .addColumn("redirect_uris", "text", (column) => column.notNull())
    .addColumn("created_at", "text", (column) => column.notNull())
    .execute();
}
