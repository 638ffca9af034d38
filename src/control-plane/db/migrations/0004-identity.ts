// People with passwords, settings of workspaces, invitations, service accounts, and API keys that belong to either kind of owner.
import { type Kysely, sql } from "kysely";

async function extendPeople(db: Kysely<never>): Promise<void> {
  for (const column of ["email", "given_name", "family_name", "password_hash", "disabled_at", "updated_at"]) {
    await db.schema.alterTable("users").addColumn(column, "text").execute();
  }
  await db.schema.createIndex("users_by_email").unique().on("users").column("email").execute();
  for (const column of ["display_name", "labels", "updated_at", "created_by", "updated_by", "deleted_at"]) {
    await db.schema.alterTable("workspaces").addColumn(column, "text").execute();
  }
  await db.schema.createIndex("members_by_user").on("members").column("user_id").execute();
}

async function createInvitations(db: Kysely<never>): Promise<void> {
  await db.schema
    .createTable("invitations")
    .addColumn("workspace_id", "text", (column) => column.notNull().references("workspaces.id").onDelete("cascade"))
    .addColumn("email", "text", (column) => column.notNull())
    .addColumn("role", "text", (column) => column.notNull())
    .addColumn("invited_by", "text", (column) => column.notNull())
    .addColumn("created_by", "text", (column) => column.notNull())
    .addColumn("created_at", "text", (column) => column.notNull())
    .addColumn("updated_at", "text", (column) => column.notNull())
    .addColumn("expires_at", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("invitations_pk", ["workspace_id", "email"])
    .execute();
  await db.schema.createIndex("invitations_by_email").on("invitations").column("email").execute();
}

async function createServiceAccounts(db: Kysely<never>): Promise<void> {
  await db.schema
    .createTable("service_accounts")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("workspace_id", "text", (column) => column.notNull().references("workspaces.id").onDelete("cascade"))
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("description", "text", (column) => column.notNull())
    .addColumn("role", "text", (column) => column.notNull())
    .addColumn("secret_hash", "text", (column) => column.notNull())
    .addColumn("created_at", "text", (column) => column.notNull())
    .addColumn("updated_at", "text", (column) => column.notNull())
    .addColumn("created_by", "text", (column) => column.notNull())
    .addColumn("updated_by", "text", (column) => column.notNull())
    .execute();
  await db.schema
    .createIndex("service_accounts_by_workspace")
    .on("service_accounts")
    .columns(["workspace_id", "created_at", "id"])
    .execute();
}

/** Made anew: SQLite cannot allow nulls in a column that forbade them. */
async function widenApiKeys(db: Kysely<never>): Promise<void> {
  await db.schema
    .createTable("owned_api_keys")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("workspace_id", "text", (column) => column.references("workspaces.id").onDelete("set null"))
    .addColumn("user_id", "text", (column) => column.references("users.id").onDelete("cascade"))
    .addColumn("service_account_id", "text", (column) => column.references("service_accounts.id").onDelete("cascade"))
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("token_hash", "text", (column) => column.notNull())
    .addColumn("expires_in", "text")
    .addColumn("created_at", "text", (column) => column.notNull())
    .addColumn("created_by", "text")
    .addColumn("expires_at", "text")
    .addColumn("scopes", "text")
    .addColumn("last_used_at", "text")
    .execute();
  const columns = sql.raw("id, workspace_id, user_id, name, token_hash, created_at, expires_at");
  await sql`insert into owned_api_keys (${columns}) select ${columns} from api_keys where revoked_at is null`.execute(
    db,
  );
  await db.schema.dropTable("api_keys").execute();
  await db.schema.alterTable("owned_api_keys").renameTo("api_keys").execute();
  await db.schema.createIndex("api_keys_by_token").unique().on("api_keys").column("token_hash").execute();
  await db.schema.createIndex("api_keys_by_user").on("api_keys").columns(["user_id", "created_at"]).execute();
  await db.schema
    .createIndex("api_keys_by_service_account")
    .on("api_keys")
    .columns(["service_account_id", "created_at"])
    .execute();
}

export async function up(db: Kysely<never>): Promise<void> {
  await extendPeople(db);
  await createInvitations(db);
  await createServiceAccounts(db);
  await widenApiKeys(db);
}
