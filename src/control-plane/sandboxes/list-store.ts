// The queries behind lists of sandboxes: one page by keyset, and how many there are in all.
import type { Expression, SqlBool } from "kysely";
import type { SortOrder } from "../../contract/page.ts";
import type { SandboxStatus } from "../../contract/sandbox-status.ts";
import type { Database } from "../db/database.ts";
import { fromRow, type SandboxRecord } from "./record.ts";

export type ListFilter = {
  workspaceId: string;
  statuses: readonly SandboxStatus[];
  externalId: string | undefined;
};

/** Where a page begins: after this item. */
export type Position = { value: string; id: string };

export type ListStore = ReturnType<typeof createListStore>;

export function createListStore({ kysely }: Database) {
  const filtered = ({ workspaceId, statuses, externalId }: ListFilter) => {
    const query = kysely
      .selectFrom("sandboxes")
      .where("workspace_id", "=", workspaceId)
      .where("status", "in", statuses);
    return externalId === undefined ? query : query.where("external_id", "=", externalId);
  };
  return {
    async count(filter: ListFilter): Promise<number> {
      const { count } = await filtered(filter)
        .select((select) => select.fn.countAll<number | string>().as("count"))
        .executeTakeFirstOrThrow();
      return Number(count);
    },

    async page(
      filter: ListFilter,
      sort: SortOrder,
      { after, limit }: { after: Position | undefined; limit: number },
    ): Promise<SandboxRecord[]> {
      const column = sortColumn(sort);
      const direction = sort.endsWith(":asc") ? "asc" : "desc";
      let query = filtered(filter).selectAll().orderBy(column, direction).orderBy("id", direction).limit(limit);
      if (after !== undefined) {
        query = query.where(
          (where): Expression<SqlBool> =>
            where(where.refTuple(column, "id"), direction === "asc" ? ">" : "<", where.tuple(after.value, after.id)),
        );
      }
      return (await query.execute()).map(fromRow);
    },
  };
}

function sortColumn(sort: SortOrder): "created_at" | "name" {
  return sort.startsWith("name") ? "name" : "created_at";
}

export function positionOf({ createdAt, name, id }: SandboxRecord, sort: SortOrder): Position {
  return { value: sortColumn(sort) === "name" ? name : createdAt, id };
}
