// What all paged lists share: reading the paging parameters, cursors that belong to one list, and what is searched for.
import type { Static } from "typebox";
import Type from "typebox";
import { type PaginationMeta, PagingQuery, pageLimitDefault, pageLimitMax, type SortOrder } from "../contract/page.ts";
import { AppError } from "../core/errors.ts";
import type { SealKey } from "../core/seal.ts";

const cursorTtlMs = 86_400_000;
const searchMinLength = 2;

const Query = Type.Object(PagingQuery);
export type PagingInput = Static<typeof Query>;

/** A place in a list: after this item. */
export type Position = { value: string; id: string };

export type Paging = {
  sort: SortOrder;
  limit: number;
  /** What items must contain somewhere; see `normalizeText`. */
  search: string | undefined;
  /** The last page instead of the first. */
  isTail: boolean;
};

export function readPaging({ sort = "createdAt:desc", limit, q, anchor, cursor }: PagingInput): Paging {
  const isTail = anchor === "end";
  if (isTail && cursor !== undefined) reject("anchor must not be used with a cursor");
  if (isTail && !sort.startsWith("createdAt")) reject("anchor must be used with sort createdAt:asc or createdAt:desc");
  const search = normalizeText(q ?? "").trim();
  return {
    sort,
    limit: Math.min(limit ?? pageLimitDefault, pageLimitMax),
    search: search.length < searchMinLength ? undefined : search,
    isTail,
  };
}

function reject(rule: string): never {
  throw new AppError("invalid_request", `query parameter ${rule}`);
}

/** Text that can be searched: one piece of it never continues in the next. Searched for, a text is brought into the same form. */
export function formatSearchText(pieces: readonly string[]): string {
  return pieces.map(normalizeText).join("\x1f");
}

function normalizeText(text: string): string {
  return text.toLowerCase().replaceAll(/[\0\x1f]/g, " ");
}

export type Direction = "asc" | "desc";

export function directionOf(sort: SortOrder): Direction {
  return sort.endsWith(":asc") ? "asc" : "desc";
}

export function reverse(direction: Direction): Direction {
  return direction === "asc" ? "desc" : "asc";
}

/** Before everything else in that direction; the texts of positions are ASCII letters, digits and marks below `~`. */
export function beginningOf(direction: Direction): Position {
  return direction === "asc" ? { value: "", id: "" } : { value: "~", id: "~" };
}

export function comparePositions(left: Position, right: Position, direction: Direction): number {
  const [first, second] = direction === "asc" ? [left, right] : [right, left];
  if (first.value !== second.value) return first.value < second.value ? -1 : 1;
  if (first.id === second.id) return 0;
  return first.id < second.id ? -1 : 1;
}

export type OpenedCursor = { after: Position; total: number | undefined };

/** Cursors of one list of one workspace: whatever `list` names of filters and order, another list cannot open them. */
export function createCursors(sealKey: SealKey, list: readonly unknown[]) {
  const boundTo = `cursor:${sealKey.fingerprint(JSON.stringify(list))}`;
  return {
    /** `total` travels along where it is dear to count again. */
    seal({ value, id }: Position, total?: number): string {
      return sealKey.seal(JSON.stringify([value, id, Date.now() + cursorTtlMs, total ?? null]), boundTo);
    },
    open(cursor: string): OpenedCursor {
      try {
        const [value, id, expiresAt, total] = JSON.parse(sealKey.open(cursor, boundTo)) as [
          string,
          string,
          number,
          number | null,
        ];
        if (expiresAt > Date.now()) return { after: { value, id }, total: total ?? undefined };
      } catch {
        // Falls through: a cursor that does not open is answered like one that has expired.
      }
      throw new AppError("invalid_request", "The cursor has expired, or belongs to another list.");
    },
  };
}

export type Page<Item> = { data: Item[]; meta: PaginationMeta };
