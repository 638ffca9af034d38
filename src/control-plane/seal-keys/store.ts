// Queries about which key the installation's secrets are sealed with, and about the texts that are sealed with another.
import { sql } from "kysely";
import type { SealKey } from "../../core/seal.ts";
import type { Database } from "../db/database.ts";
import type { SealedColumn } from "./sealed-columns.ts";

/** Values of a primary key: where a walk has come to. */
export type Position = readonly string[];

/** `end` is where the next portion goes on; undefined after the last one. */
export type Portion = { resealed: number; unreadable: number; end: Position | undefined };

export type SealKeyStore = ReturnType<typeof createSealKeyStore>;

export function createSealKeyStore(database: Database) {
  const isOld = ({ column }: SealedColumn, prefix: string) =>
    sql<boolean>`${sql.ref(column)} is not null and substr(${sql.ref(column)}, 1, ${sql.lit(prefix.length)}) <> ${prefix}`;
  return {
    /** From here on the database needs both keys, and refuses to be opened without one of them. */
    async begin(keyId: string, previousKeyId: string): Promise<void> {
      await database.kysely
        .updateTable("installation")
        .set({ seal_key_id: keyId, previous_seal_key_id: previousKeyId })
        .execute();
      await database.flush();
    },
    /** From here on it needs the current key alone. */
    async end(): Promise<void> {
      await database.flush();
      await database.kysely.updateTable("installation").set({ previous_seal_key_id: null }).execute();
      await database.flush();
    },
    async countOld(column: SealedColumn, prefix: string): Promise<number> {
      const { rows } = await sql<{ count: number | string }>`
        select count(*) as count from ${sql.table(column.table)} where ${isOld(column, prefix)}`.execute(
        database.kysely,
      );
      return Number(rows[0]?.count ?? 0);
    },
    /**
     * Seals some rows anew, in the order of their keys. A row that is changed meanwhile keeps what it was changed to, which is sealed with
     * the current key or met again by the next walk.
     */
    async resealSome(
      column: SealedColumn,
      sealKey: SealKey,
      after: Position | undefined,
      max: number,
    ): Promise<Portion> {
      const { table, column: name, keys, recordIdOf } = column;
      const columns = sql.join([...keys, name].map((key) => sql.ref(key)));
      const order = sql.join(keys.map((key) => sql.ref(key)));
      const isNext = after === undefined ? sql`1 = 1` : sql`(${order}) > (${sql.join(after)})`;
      return database.transact(async (queries) => {
        const { rows } = await sql<Record<string, string>>`
          select ${columns} from ${sql.table(table)} where ${isNext} and ${isOld(column, sealKey.prefix)}
           order by ${order} limit ${sql.lit(max)}`.execute(queries);
        let unreadable = 0;
        for (const row of rows) {
          const sealed = row[name]!;
          const anew = tryReseal(sealKey, sealed, recordIdOf(row));
          if (anew === undefined) {
            unreadable += 1;
            continue;
          }
          const isRow = sql.join(
            keys.map((key) => sql`${sql.ref(key)} = ${row[key]}`),
            sql` and `,
          );
          await sql`update ${sql.table(table)} set ${sql.ref(name)} = ${anew}
                     where ${isRow} and ${sql.ref(name)} = ${sealed}`.execute(queries);
        }
        const last = rows.length < max ? undefined : rows.at(-1);
        return { resealed: rows.length - unreadable, unreadable, end: last && keys.map((key) => last[key]!) };
      });
    },
  };
}

function tryReseal(sealKey: SealKey, sealed: string, recordId: string): string | undefined {
  try {
    return sealKey.reseal(sealed, recordId);
  } catch {
    return undefined;
  }
}
