// Queries about what the OAuth server remembers; ids arrive as the hashes they are kept as.
import { type Eventual, proceed } from "../../core/eventual.ts";
import type { Database } from "../db/database.ts";
import type { OauthRecordsTable } from "../db/tables/oauth-records.ts";

export type OauthRecord = OauthRecordsTable;
export type RecordStore = ReturnType<typeof createRecordStore>;

/** Expired records are removed in portions, so that no statement holds the database for long. */
export const purgeMax = 1_000;

/** Kept in this table beside the records themselves: ids of access tokens that were revoked one by one. */
export const revokedToken = "RevokedToken";

export function createRecordStore(database: Database) {
  const { kysely } = database;
  const live = database.prepareRememberedRead<{ live: number }>(
    `select 1 as live from oauth_records g
      where g.model = 'Grant' and g.id = ?
        and not exists (select 1 from oauth_records r where r.model = '${revokedToken}' and r.id = ?)`,
  );
  const findBy = (column: "id" | "uid" | "user_code", model: string, value: string) =>
    kysely
      .selectFrom("oauth_records")
      .selectAll()
      .where("model", "=", model)
      .where(column, "=", value)
      .where("expires_at", ">", new Date().toISOString())
      .executeTakeFirst();
  return {
    findBy,
    /** Whether a token's grant still stands and the token itself was not revoked. Grants outlive what is issued under them. */
    isLive: (grantId: string, tokenId: string): Eventual<boolean> =>
      proceed(live.first(grantId, tokenId), (row) => row !== undefined),
    /** What was used once stays used, whatever is written later. */
    async upsert(record: OauthRecord): Promise<void> {
      const { model: _model, id: _id, consumed_at: _consumed, ...changes } = record;
      await kysely
        .insertInto("oauth_records")
        .values(record)
        .onConflict((conflict) => conflict.columns(["model", "id"]).doUpdateSet(changes))
        .execute();
    },
    /** True for exactly one of those who ask, however many ask at once. */
    async consume(model: string, id: string, at: string): Promise<boolean> {
      const row = await kysely
        .updateTable("oauth_records")
        .set({ consumed_at: at })
        .where("model", "=", model)
        .where("id", "=", id)
        .where("consumed_at", "is", null)
        .returning("id")
        .executeTakeFirst();
      return row !== undefined;
    },
    async extend(model: string, id: string, expiresAt: string): Promise<void> {
      await kysely
        .updateTable("oauth_records")
        .set({ expires_at: expiresAt })
        .where("model", "=", model)
        .where("id", "=", id)
        .execute();
    },
    ...createRemovals(database),
    flush: () => database.flush(),
  };
}

function createRemovals({ kysely }: Database) {
  return {
    async remove(model: string, id: string): Promise<void> {
      await kysely.deleteFrom("oauth_records").where("model", "=", model).where("id", "=", id).execute();
    },
    /** The grant itself and everything issued under it. */
    async removeGrant(grantId: string): Promise<void> {
      await kysely.deleteFrom("oauth_records").where("grant_id", "=", grantId).execute();
      await kysely.deleteFrom("oauth_records").where("model", "=", "Grant").where("id", "=", grantId).execute();
    },
    async removeBy(column: "subject_id" | "client_id", value: string): Promise<void> {
      await kysely.deleteFrom("oauth_records").where(column, "=", value).execute();
    },
    /** Returns how many expired records are gone. */
    async purge(now: string): Promise<number> {
      const expired = await kysely
        .selectFrom("oauth_records")
        .select(["model", "id"])
        .where("expires_at", "<=", now)
        .limit(purgeMax)
        .execute();
      for (const { model, id } of expired) {
        await kysely
          .deleteFrom("oauth_records")
          .where("model", "=", model)
          .where("id", "=", id)
          .where("expires_at", "<=", now)
          .execute();
      }
      return expired.length;
    },
  };
}
