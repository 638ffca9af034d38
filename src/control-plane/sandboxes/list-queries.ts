// The statements behind lists: each reads one range of one index, in one status of one workspace. The text to search for is looked at
// in slices of a range, between which whatever else waits goes first.
import type { SandboxStatus } from "../../contract/sandbox-status.ts";
import type { Database, PreparedRead } from "../db/database.ts";
import { beginningOf, type Direction, type Position, reverse } from "../paging.ts";
import type { SandboxRow } from "./record.ts";
import { SlicePace, yieldTurn } from "./scans.ts";

export type Column = "created_at" | "name";
export type Order = { column: Column; direction: Direction };

/** What all rows of a range have in common; `search` is what the text of those asked for contains. */
export type RangeFilter = { workspaceId: string; externalId: string | undefined; search: string | undefined };

/** How long others may wait for their turn, and the rows that are tried first: a moment where this process is the database. */
const slices = { sqlite: { targetMs: 2, rowsMax: 2_000 }, postgres: { targetMs: 100, rowsMax: 50_000 } };

type Statements = {
  page: PreparedRead<SandboxRow>;
  boundary: PreparedRead<Position>;
  matches: PreparedRead<{ count: number }>;
  matchingPage: PreparedRead<SandboxRow>;
};

export function createListQueries(database: Database) {
  const statementsFor = prepareStatements(database);
  const pace = new SlicePace(slices[database.dialect]);

  /** `visit` is given the ends of each slice and says whether to go on. */
  const eachSlice = async (
    { boundary }: Statements,
    key: string[],
    { direction, after }: { direction: Direction; after: Position | undefined },
    visit: (bounds: string[]) => Promise<boolean>,
  ): Promise<void> => {
    const end = beginningOf(reverse(direction));
    for (let from = after ?? beginningOf(direction); ; ) {
      const startedAt = performance.now();
      const next = await boundary.first(...key, from.value, from.id, pace.rows - 1);
      const to = next ?? end;
      const goesOn = await visit([from.value, from.id, to.value, to.id]);
      pace.took(performance.now() - startedAt);
      if (next === undefined || !goesOn) return;
      from = next;
      await yieldTurn();
    }
  };

  return {
    /** In the order given, from after the position on. */
    async page(
      filter: RangeFilter,
      status: SandboxStatus,
      { column, direction, after, limit }: Order & { after: Position | undefined; limit: number },
    ): Promise<SandboxRow[]> {
      const { search } = filter;
      const statements = statementsFor({ column, direction }, filter);
      const key = keyOf(filter, status);
      const from = after ?? beginningOf(direction);
      if (search === undefined) return statements.page.all(...key, from.value, from.id, limit);
      const found: SandboxRow[] = [];
      await eachSlice(statements, key, { direction, after }, async (bounds) => {
        found.push(...(await statements.matchingPage.all(...key, ...bounds, search, search, limit - found.length)));
        return found.length < limit;
      });
      return found;
    },

    async count(filter: RangeFilter, status: SandboxStatus): Promise<number> {
      const { search = "" } = filter;
      const statements = statementsFor({ column: "created_at", direction: "asc" }, filter);
      const key = keyOf(filter, status);
      let total = 0;
      await eachSlice(statements, key, { direction: "asc", after: undefined }, async (bounds) => {
        const row = await statements.matches.first(...key, ...bounds, search, search);
        total += row?.count ?? 0;
        return true;
      });
      return total;
    },
  };
}

function keyOf({ workspaceId, externalId }: RangeFilter, status: SandboxStatus): string[] {
  return externalId === undefined ? [workspaceId, status] : [workspaceId, status, externalId];
}

function prepareStatements(database: Database): (order: Order, filter: RangeFilter) => Statements {
  const prepared = new Map<string, Statements>();
  const position = database.dialect === "sqlite" ? "instr" : "strpos";
  const prepare = ({ column, direction }: Order, externalId: string | undefined): Statements => {
    const equal = ["workspace_id = ?", "status = ?", ...(externalId === undefined ? [] : ["external_id = ?"])];
    const from = `from sandboxes where ${equal.join(" and ")} and (${column}, id) ${direction === "asc" ? ">" : "<"} (?, ?)`;
    const to = `and (${column}, id) ${direction === "asc" ? "<=" : ">="} (?, ?)`;
    const containing = `and (${position}(name, ?) > 0 or ${position}(search_text, ?) > 0)`;
    const order = `order by ${column} ${direction}, id ${direction}`;
    return {
      page: database.prepareRead(`select * ${from} ${order} limit ?`),
      boundary: database.prepareRead(`select ${column} as value, id ${from} ${order} limit 1 offset ?`),
      matches: database.prepareRead(`select count(*) as count ${from} ${to} ${containing}`),
      matchingPage: database.prepareRead(`select * ${from} ${to} ${containing} ${order} limit ?`),
    };
  };
  return (order, { externalId }) => {
    const name = `${order.column} ${order.direction} ${externalId !== undefined}`;
    const found = prepared.get(name) ?? prepare(order, externalId);
    prepared.set(name, found);
    return found;
  };
}
