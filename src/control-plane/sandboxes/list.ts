// Lists sandboxes: in pages with a cursor, or all of them one chunk at a time for callers of the older interface version.
import type { Static } from "typebox";
import { type PaginationMeta, pageLimitDefault, pageLimitMax, type SortOrder } from "../../contract/page.ts";
import type { listSandboxes, Sandbox } from "../../contract/sandbox.ts";
import { type SandboxStatus, sandboxStatuses, statusesThatAllow } from "../../contract/sandbox-status.ts";
import { AppError } from "../../core/errors.ts";
import type { SealKey } from "../../core/seal.ts";
import type { Caller } from "../auth/caller.ts";
import { type ListFilter, type ListStore, type Position, positionOf } from "./list-store.ts";
import type { Presenter } from "./present.ts";

const cursorTtlMs = 86_400_000;

export type ListQuery = Static<(typeof listSandboxes)["query"]>;

export type ListOptions = { store: ListStore; presenter: Presenter; sealKey: SealKey };

export type SandboxList = ReturnType<typeof createSandboxList>;

export function createSandboxList({ store, presenter, sealKey }: ListOptions) {
  return {
    async page(caller: Caller, query: ListQuery): Promise<{ data: Sandbox[]; meta: PaginationMeta }> {
      const { filter, sort, limit } = readQuery(caller, query);
      const boundTo = `cursor:${sealKey.fingerprint(JSON.stringify([filter, sort]))}`;
      const after = query.cursor === undefined ? undefined : openCursor(sealKey, query.cursor, boundTo);
      const records = await store.page(filter, sort, { after, limit: limit + 1 });
      const shown = records.slice(0, limit);
      const hasMore = records.length > limit;
      const last = shown.at(-1);
      return {
        data: shown.map((record) => presenter.presentItem(record, caller)),
        meta: {
          hasMore,
          ...(hasMore && last && { nextCursor: sealCursor(sealKey, positionOf(last, sort), boundTo) }),
          total: await store.count(filter),
        },
      };
    },

    /** Everything, in chunks of one page, so that a long list is never whole in memory; at most `limit` when one is given. */
    async *all(caller: Caller, query: ListQuery): AsyncGenerator<Sandbox[]> {
      const { filter, sort } = readQuery(caller, query);
      let after: Position | undefined;
      let left = query.limit ?? Number.POSITIVE_INFINITY;
      while (left > 0) {
        const limit = Math.min(left, pageLimitMax);
        const records = await store.page(filter, sort, { after, limit });
        const last = records.at(-1);
        if (last === undefined) return;
        yield records.map((record) => presenter.presentItem(record, caller));
        if (records.length < limit) return;
        left -= records.length;
        after = positionOf(last, sort);
      }
    },
  };
}

function readQuery(caller: Caller, query: ListQuery): { filter: ListFilter; sort: SortOrder; limit: number } {
  const unavailable = (["q", "anchor"] as const).filter((name) => query[name] !== undefined);
  if (unavailable.length > 0) {
    throw new AppError("invalid_request", `Not available in this version: query parameter ${unavailable.join(", ")}.`);
  }
  return {
    filter: { workspaceId: caller.workspaceId, statuses: readStatuses(query), externalId: query.externalId },
    sort: query.sort ?? "createdAt:desc",
    limit: Math.min(query.limit ?? pageLimitDefault, pageLimitMax),
  };
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

function sealCursor(sealKey: SealKey, { value, id }: Position, boundTo: string): string {
  return sealKey.seal(JSON.stringify([value, id, Date.now() + cursorTtlMs]), boundTo);
}

function openCursor(sealKey: SealKey, cursor: string, boundTo: string): Position {
  try {
    const [value, id, expiresAt] = JSON.parse(sealKey.open(cursor, boundTo)) as [string, string, number];
    if (expiresAt > Date.now()) return { value, id };
  } catch {
    // Falls through: a cursor that does not open is answered like one that has expired.
  }
  throw new AppError("invalid_request", "The cursor has expired, or belongs to another list.");
}
