// Queries about API keys by their owner.
import type { Insertable } from "kysely";
import type { Database } from "../db/database.ts";
import type { ApiKeysTable } from "../db/tables/api-keys.ts";

/** Exactly one of the two is set. */
export type KeyOwner = { user_id: string } | { service_account_id: string };

export type ApiKeyStore = ReturnType<typeof createApiKeyStore>;

export function createApiKeyStore(database: Database) {
  const { kysely } = database;
  return {
    list: (owner: KeyOwner, limit: number): Promise<ApiKeysTable[]> =>
      kysely
        .selectFrom("api_keys")
        .selectAll()
        .where((where) => where.and({ ...owner }))
        .orderBy("created_at")
        .orderBy("id")
        .limit(limit)
        .execute(),
    async insert(row: Insertable<ApiKeysTable>): Promise<void> {
      await kysely.insertInto("api_keys").values(row).execute();
      await database.flush();
    },
    async remove(owner: KeyOwner, id: string): Promise<ApiKeysTable | undefined> {
      const row = await kysely
        .deleteFrom("api_keys")
        .where((where) => where.and({ ...owner, id }))
        .returningAll()
        .executeTakeFirst();
      await database.flush();
      return row;
    },
    /** Times by the id of the key. */
    async noteUse(times: ReadonlyMap<string, string>): Promise<void> {
      await database.transact(async (queries) => {
        for (const [id, at] of times) {
          await queries.updateTable("api_keys").set({ last_used_at: at }).where("id", "=", id).execute();
        }
      });
    },
  };
}
