// Pages of sandboxes and how many there are. What a page costs does not depend on how many sandboxes the workspace has.
import type { SortOrder } from "../../contract/page.ts";
import type { SandboxStatus } from "../../contract/sandbox-status.ts";
import type { Database } from "../db/database.ts";
import { comparePositions, type Position } from "../paging.ts";
import { type Column, createListQueries, type Order } from "./list-queries.ts";
import { fromRow, type SandboxRecord, type SandboxRow } from "./record.ts";
import { Scans } from "./scans.ts";

export type ListFilter = {
  workspaceId: string;
  statuses: readonly SandboxStatus[];
  externalId: string | undefined;
  /** In the form that `formatSearchText` gives text. */
  search: string | undefined;
};

export type PageRange = Order & { after: Position | undefined; limit: number };

export type ListStore = ReturnType<typeof createListStore>;

export function createListStore(database: Database) {
  const queries = createListQueries(database);
  const scans = new Scans();
  const counts = database.prepareRead<{ status: SandboxStatus; count: number }>(
    "select status, sum(count) as count from sandbox_counts where workspace_id = ? group by status",
  );

  /** Only statuses that some sandbox is in. */
  const countStatuses = async ({
    workspaceId,
    statuses,
  }: ListFilter): Promise<{ status: SandboxStatus; count: number }[]> =>
    (await counts.all(workspaceId)).filter(({ status, count }) => count > 0 && statuses.includes(status));

  const isScan = ({ search, externalId }: ListFilter): boolean => search !== undefined || externalId !== undefined;
  const scanned = <Result>(filter: ListFilter, work: () => Promise<Result>): Promise<Result> =>
    isScan(filter) ? scans.run(filter.workspaceId, work) : work();

  return {
    /** Whether counting looks at every sandbox that could match. */
    isScan,

    count: (filter: ListFilter): Promise<number> =>
      scanned(filter, async () => {
        let total = 0;
        for (const { status, count } of await countStatuses(filter)) {
          total += isScan(filter) ? await queries.count(filter, status) : count;
        }
        return total;
      }),

    /** One range of each status, merged. */
    page: (filter: ListFilter, range: PageRange): Promise<SandboxRecord[]> =>
      scanned(filter, async () => {
        const rows: SandboxRow[] = [];
        const statuses = await countStatuses(filter);
        for (const { status } of statuses) rows.push(...(await queries.page(filter, status, range)));
        const position = (row: SandboxRow): Position => ({ value: row[range.column], id: row.id });
        if (statuses.length > 1) rows.sort((a, b) => comparePositions(position(a), position(b), range.direction));
        return rows.slice(0, range.limit).map(fromRow);
      }),
  };
}

export function sortColumn(sort: SortOrder): Column {
  return sort.startsWith("name") ? "name" : "created_at";
}

export function positionOf({ createdAt, name, id }: SandboxRecord, column: Column): Position {
  return { value: column === "name" ? name : createdAt, id };
}
