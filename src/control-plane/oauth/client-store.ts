// Queries about registered OAuth clients.
import type { Database } from "../db/database.ts";
import type { OauthClientsTable } from "../db/tables/oauth-clients.ts";

export type ClientStore = ReturnType<typeof createClientStore>;

export function createClientStore(database: Database) {
  const { kysely } = database;
  const byId = database.prepareRememberedRead<OauthClientsTable>("select * from oauth_clients where id = ?");
  return {
    find: async (id: string): Promise<Readonly<OauthClientsTable> | undefined> => byId.first(id),
    list: (): Promise<OauthClientsTable[]> =>
      kysely.selectFrom("oauth_clients").selectAll().orderBy("created_at").orderBy("id").execute(),
    async insert(row: OauthClientsTable): Promise<void> {
      await kysely.insertInto("oauth_clients").values(row).execute();
      await database.flush();
    },
    async remove(id: string): Promise<OauthClientsTable | undefined> {
      const row = await kysely.deleteFrom("oauth_clients").where("id", "=", id).returningAll().executeTakeFirst();
      await database.flush();
      return row;
    },
  };
}
