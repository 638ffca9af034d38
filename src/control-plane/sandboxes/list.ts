// Lists sandboxes: in pages with a cursor, or all of them one chunk at a time for callers of the older interface version.
import type { Static } from "typebox";
import { pageLimitMax } from "../../contract/page.ts";
import type { listSandboxes, Sandbox } from "../../contract/sandbox.ts";
import { type SandboxStatus, sandboxStatuses, statusesThatAllow } from "../../contract/sandbox-status.ts";
import { AppError } from "../../core/errors.ts";
import type { SealKey } from "../../core/seal.ts";
import type { Caller } from "../auth/caller.ts";
import { createCursors, directionOf, type Page, type Paging, type Position, readPaging, reverse } from "../paging.ts";
import { type ListFilter, type ListStore, positionOf, sortColumn } from "./list-store.ts";
import type { Presenter } from "./present.ts";
import type { SandboxRecord } from "./record.ts";

export type ListQuery = Static<(typeof listSandboxes)["query"]>;

export type ListOptions = { store: ListStore; presenter: Presenter; sealKey: SealKey };

export type SandboxList = ReturnType<typeof createSandboxList>;

export function createSandboxList({ store, presenter, sealKey }: ListOptions) {
  const readRange = (filter: ListFilter, paging: Paging, after: Position | undefined, limit: number) =>
    store.page(filter, { column: sortColumn(paging.sort), direction: directionOf(paging.sort), after, limit });

  /** The end of the list, in the list's order. */
  const readTail = async (filter: ListFilter, { sort, limit }: Paging): Promise<SandboxRecord[]> => {
    const backwards = { column: sortColumn(sort), direction: reverse(directionOf(sort)), after: undefined, limit };
    return (await store.page(filter, backwards)).reverse();
  };

  return {
    async page(caller: Caller, query: ListQuery): Promise<Page<Sandbox>> {
      const paging = readPaging(query);
      const filter = readFilter(caller, query, paging);
      const cursors = createCursors(sealKey, ["sandboxes", filter, paging.sort]);
      const opened = query.cursor === undefined ? undefined : cursors.open(query.cursor);
      const { limit, isTail } = paging;
      const total = opened?.total ?? (await store.count(filter));
      const readRecords = () =>
        isTail ? readTail(filter, paging) : readRange(filter, paging, opened?.after, limit + 1);
      // A search that has found nothing need not look for it again.
      const records = total === 0 && store.isScan(filter) ? [] : await readRecords();
      const hasMore = records.length > limit;
      const shown = hasMore ? records.slice(0, limit) : records;
      const last = shown.at(-1);
      const at = hasMore && last !== undefined ? positionOf(last, sortColumn(paging.sort)) : undefined;
      const nextCursor = at && cursors.seal(at, store.isScan(filter) ? total : undefined);
      return {
        data: shown.map((record) => presenter.presentItem(record, caller)),
        meta: { hasMore, ...(nextCursor && { nextCursor }), total },
      };
    },

    /** Everything, in chunks of one page, so that a long list is never whole in memory; at most `limit` when one is given. */
    async *all(caller: Caller, query: ListQuery): AsyncGenerator<Sandbox[]> {
      const paging = readPaging(query);
      const filter = readFilter(caller, query, paging);
      const present = (records: SandboxRecord[]) => records.map((record) => presenter.presentItem(record, caller));
      if (paging.isTail) return yield present(await readTail(filter, paging));
      let after: Position | undefined;
      let left = query.limit ?? Number.POSITIVE_INFINITY;
      while (left > 0) {
        const limit = Math.min(left, pageLimitMax);
        const records = await readRange(filter, paging, after, limit);
        const last = records.at(-1);
        if (last === undefined) return;
        yield present(records);
        if (records.length < limit) return;
        left -= records.length;
        after = positionOf(last, sortColumn(paging.sort));
      }
    },
  };
}

function readFilter({ workspaceId }: Caller, query: ListQuery, { search }: Paging): ListFilter {
  return { workspaceId, statuses: readStatuses(query), externalId: query.externalId, search };
}

function readStatuses({ status, showTerminated }: ListQuery): readonly SandboxStatus[] {
  if (status === undefined) return showTerminated ? sandboxStatuses : statusesThatAllow("list");
  const wanted = status.split(",").map((text) => text.trim().toUpperCase());
  const unknown = wanted.filter((text) => !(sandboxStatuses as readonly string[]).includes(text));
  if (unknown.length > 0) {
    throw new AppError("invalid_request", `query parameter status must list some of ${sandboxStatuses.join(", ")}`);
  }
  return wanted as SandboxStatus[];
}
