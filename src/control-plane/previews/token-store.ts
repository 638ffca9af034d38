// Queries about the tokens of previews.
import { countRows } from "../db/count-rows.ts";
import type { Database } from "../db/database.ts";
import { lockWorkspace } from "../db/lock-workspace.ts";
import type { TokenRow } from "./record.ts";

export const tokensPerPreviewMax = 100;

export type TokenStore = ReturnType<typeof createTokenStore>;

export function createTokenStore(database: Database) {
  const { kysely } = database;
  return {
    /** Newest first. */
    list: (previewId: string): Promise<TokenRow[]> =>
      kysely
        .selectFrom("preview_tokens")
        .selectAll()
        .where("preview_id", "=", previewId)
        .orderBy("created_at", "desc")
        .orderBy("name", "desc")
        .execute(),

    /** Those that have expired make room when there are too many, and for their name. */
    async insert(row: TokenRow): Promise<"inserted" | "name_taken" | "too_many" | "preview_gone"> {
      const { preview_id: previewId, name } = row;
      return database.transactDurably(async (queries) => {
        await lockWorkspace(queries, row.workspace_id);
        const preview = queries.selectFrom("previews").select("id").where("id", "=", previewId);
        if ((await preview.executeTakeFirst()) === undefined) return "preview_gone";
        const expired = queries
          .deleteFrom("preview_tokens")
          .where("preview_id", "=", previewId)
          .where("expires_at", "<=", row.created_at);
        let left = await countRows(queries.selectFrom("preview_tokens").where("preview_id", "=", previewId));
        if (left >= tokensPerPreviewMax) left -= (await expired.returning("name").execute()).length;
        else await expired.where("name", "=", name).execute();
        if (left >= tokensPerPreviewMax) return "too_many";
        const inserted = await queries
          .insertInto("preview_tokens")
          .values(row)
          .onConflict((conflict) => conflict.columns(["preview_id", "name"]).doNothing())
          .returning("name")
          .executeTakeFirst();
        return inserted === undefined ? "name_taken" : "inserted";
      });
    },

    /** By the hash of its value, or by its name. Whether it was there. */
    async remove(previewId: string, by: { token_hash: string } | { name: string }): Promise<boolean> {
      const removed = await kysely
        .deleteFrom("preview_tokens")
        .where("preview_id", "=", previewId)
        .where((where) => where.and({ ...by }))
        .returning("name")
        .executeTakeFirst();
      if (removed !== undefined) await database.flush();
      return removed !== undefined;
    },
  };
}
