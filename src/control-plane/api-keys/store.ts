// Queries about API keys by their owner.
import type { Insertable } from "kysely";
import { countRows } from "../db/count-rows.ts";
import type { Database, Queries } from "../db/database.ts";
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
    /** False when the owner has `max` already. */
    async insert(owner: KeyOwner, row: Insertable<ApiKeysTable>, max: number): Promise<boolean> {
      return database.transactDurably(async (queries) => {
        await lockOwner(queries, owner);
        const present = queries.selectFrom("api_keys").where((where) => where.and({ ...owner }));
        if ((await countRows(present)) >= max) return false;
        await queries.insertInto("api_keys").values(row).execute();
        return true;
      });
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

/** New keys of one owner come one after the other, on every database. */
async function lockOwner(queries: Queries, owner: KeyOwner): Promise<void> {
  if ("user_id" in owner) {
    const lock = queries.updateTable("users").set((set) => ({ created_at: set.ref("created_at") }));
    await lock.where("id", "=", owner.user_id).execute();
    return;
  }
  const lock = queries.updateTable("service_accounts").set((set) => ({ created_at: set.ref("created_at") }));
  await lock.where("id", "=", owner.service_account_id).execute();
}
