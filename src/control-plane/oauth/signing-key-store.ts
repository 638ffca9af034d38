// Queries about the keys that sign access tokens.
import type { Database } from "../db/database.ts";
import type { OauthSigningKeysTable } from "../db/tables/oauth-signing-keys.ts";

export type SigningKeyStore = ReturnType<typeof createSigningKeyStore>;

export function createSigningKeyStore(database: Database) {
  const { kysely } = database;
  return {
    list: (): Promise<OauthSigningKeysTable[]> =>
      kysely.selectFrom("oauth_signing_keys").selectAll().orderBy("active_at", "desc").orderBy("id").execute(),
    async insert(row: OauthSigningKeysTable): Promise<void> {
      await kysely.insertInto("oauth_signing_keys").values(row).execute();
      await database.flush();
    },
    async remove(ids: readonly string[]): Promise<void> {
      if (ids.length === 0) return;
      await kysely.deleteFrom("oauth_signing_keys").where("id", "in", ids).execute();
      await database.flush();
    },
  };
}
