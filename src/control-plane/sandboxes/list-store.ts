// The queries behind lists of sandboxes. Each reads one bounded range of one index, or slices of it where text is searched:
// what a page costs does not depend on how many sandboxes there are.
import type { SortOrder } from "../../contract/page.ts";
import type { SandboxStatus } from "../../contract/sandbox-status.ts";
import type { Database, PreparedRead } from "../db/database.ts";
import { beginningOf, comparePositions, type Direction, type Position, reverse } from "../paging.ts";
import { fromRow, type SandboxRecord, type SandboxRow } from "./record.ts";
import { Scans, yieldTurn } from "./scans.ts";

export type ListFilter = {
  workspaceId: string;
  statuses: readonly SandboxStatus[];
  externalId: string | undefined;
  /** Lower case; what the text to search in must contain. */
  search: string | undefined;
};

export type PageRange = { column: Column; direction: Direction; after: Position | undefined; limit: number };

type Column = "created_at" | "name";

export type ListStore = ReturnType<typeof createListStore>;

/** Rows looked at before others get their turn: few where this process is the database. */
const sliceRows = { sqlite: 2_000, postgres: 50_000 };

export function createListStore(database: Database) {
  const { counts, ranges } = prepareReads(database);
  const slice = sliceRows[database.dialect];
  const scans = new Scans();

  /** Only statuses that some sandbox is in, with how many are. */
  const countStatuses = async ({ workspaceId, statuses }: ListFilter): Promise<Map<SandboxStatus, number>> => {
    const rows = await counts.all(workspaceId);
    return new Map(
      rows.filter(({ status, count }) => count > 0 && statuses.includes(status)).map((row) => [row.status, row.count]),
    );
  };

  /** Each range is a part of one status; `visit` says whether to go on. */
  const eachSlice = async (
    filter: ListFilter,
    status: SandboxStatus,
    { column, direction, after }: Omit<PageRange, "limit">,
    visit: (from: Position, to: Position) => Promise<boolean>,
  ): Promise<void> => {
    const { boundary } = ranges(column, direction, filter.externalId !== undefined);
    const end = beginningOf(reverse(direction));
    for (let from = after ?? beginningOf(direction); ; ) {
      const next = await boundary.first(...keyOf(filter, status), from.value, from.id, slice - 1);
      const goesOn = await visit(from, next ?? end);
      if (next === undefined || !goesOn) return;
      from = next;
      await yieldTurn();
    }
  };

  const countMatches = async (filter: ListFilter, status: SandboxStatus): Promise<number> => {
    const search = filter.search ?? "";
    const order = { column: "created_at", direction: "asc", after: undefined } as const;
    const { matches } = ranges(order.column, order.direction, filter.externalId !== undefined);
    let total = 0;
    await eachSlice(filter, status, order, async (from, to) => {
      const row = await matches.first(...keyOf(filter, status), from.value, from.id, to.value, to.id, search, search);
      total += row?.count ?? 0;
      return true;
    });
    return total;
  };

  const readStatus = async (filter: ListFilter, status: SandboxStatus, range: PageRange): Promise<SandboxRow[]> => {
    const { column, direction, limit } = range;
    const { page, matchingPage } = ranges(column, direction, filter.externalId !== undefined);
    const from = range.after ?? beginningOf(direction);
    const { search } = filter;
    if (search === undefined) return page.all(...keyOf(filter, status), from.value, from.id, limit);
    const found: SandboxRow[] = [];
    await eachSlice(filter, status, range, async (from, to) => {
      const bounds = [from.value, from.id, to.value, to.id];
      found.push(
        ...(await matchingPage.all(...keyOf(filter, status), ...bounds, search, search, limit - found.length)),
      );
      return found.length < limit;
    });
    return found;
  };

  const isScan = ({ search, externalId }: ListFilter): boolean => search !== undefined || externalId !== undefined;
  const scanned = <Result>(filter: ListFilter, work: () => Promise<Result>): Promise<Result> =>
    isScan(filter) ? scans.run(filter.workspaceId, work) : work();

  return {
    /** Whether counting looks at every sandbox that could match. */
    isScan,

    count: (filter: ListFilter): Promise<number> =>
      scanned(filter, async () => {
        let total = 0;
        for (const [status, count] of await countStatuses(filter)) {
          total += isScan(filter) ? await countMatches(filter, status) : count;
        }
        return total;
      }),

    page: (filter: ListFilter, range: PageRange): Promise<SandboxRecord[]> =>
      scanned(filter, async () => {
        const statuses = [...(await countStatuses(filter)).keys()];
        const rows: SandboxRow[] = [];
        for (const status of statuses) rows.push(...(await readStatus(filter, status, range)));
        const position = (row: SandboxRow): Position => ({ value: row[range.column], id: row.id });
        if (statuses.length > 1) rows.sort((a, b) => comparePositions(position(a), position(b), range.direction));
        return rows.slice(0, range.limit).map(fromRow);
      }),
  };
}

function keyOf({ workspaceId, externalId }: ListFilter, status: SandboxStatus): string[] {
  return externalId === undefined ? [workspaceId, status] : [workspaceId, status, externalId];
}

type Ranges = {
  page: PreparedRead<SandboxRow>;
  boundary: PreparedRead<Position>;
  matches: PreparedRead<{ count: number }>;
  matchingPage: PreparedRead<SandboxRow>;
};

function prepareReads(database: Database) {
  const counts = database.prepareRead<{ status: SandboxStatus; count: number }>(
    "select status, sum(count) as count from sandbox_counts where workspace_id = ? group by status",
  );
  const prepared = new Map<string, Ranges>();
  const position = database.dialect === "sqlite" ? "instr" : "strpos";
  const prepare = (column: Column, direction: Direction, hasExternalId: boolean): Ranges => {
    const key = `from sandboxes where workspace_id = ? and status = ?${hasExternalId ? " and external_id = ?" : ""}`;
    const from = `${key} and (${column}, id) ${direction === "asc" ? ">" : "<"} (?, ?)`;
    const to = `and (${column}, id) ${direction === "asc" ? "<=" : ">="} (?, ?)`;
    const order = `order by ${column} ${direction}, id ${direction}`;
    const containing = `and (${position}(name, ?) > 0 or ${position}(search_text, ?) > 0)`;
    return {
      page: database.prepareRead(`select * ${from} ${order} limit ?`),
      boundary: database.prepareRead(`select ${column} as value, id ${from} ${order} limit 1 offset ?`),
      matches: database.prepareRead(`select count(*) as count ${from} ${to} ${containing}`),
      matchingPage: database.prepareRead(`select * ${from} ${to} ${containing} ${order} limit ?`),
    };
  };
  return {
    counts,
    ranges(column: Column, direction: Direction, hasExternalId: boolean): Ranges {
      const name = `${column} ${direction} ${hasExternalId}`;
      const found = prepared.get(name) ?? prepare(column, direction, hasExternalId);
      prepared.set(name, found);
      return found;
    },
  };
}

export function sortColumn(sort: SortOrder): Column {
  return sort.startsWith("name") ? "name" : "created_at";
}

export function positionOf({ createdAt, name, id }: SandboxRecord, column: Column): Position {
  return { value: column === "name" ? name : createdAt, id };
}
