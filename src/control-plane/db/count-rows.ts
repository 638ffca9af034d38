// Counts what a limit is checked against, in the transaction that adds to it.
import { type SelectQueryBuilder, sql } from "kysely";
import type { Tables } from "./tables.ts";

/** How many rows the query finds. */
export async function countRows<Table extends keyof Tables>(
  query: SelectQueryBuilder<Tables, Table, object>,
): Promise<number> {
  const { count } = await query.select(sql<number | string>`count(*)`.as("count")).executeTakeFirstOrThrow();
  return Number(count);
}
