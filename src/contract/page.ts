// Lists: the interface versions, the paged envelope that the newer one answers with, and the paging parameters.
import Type, { type Static, type TSchema } from "typebox";

/** Without the `Blaxel-Version` header a list is a bare array; with the newer version it is a page. */
export const bareListVersion = "2026-04-16";
export const pagedListVersion = "2026-04-28";
export const apiVersions: readonly string[] = [bareListVersion, pagedListVersion];

export const pageLimitDefault = 50;
export const pageLimitMax = 200;

export const sortOrders = ["createdAt:desc", "createdAt:asc", "name:asc", "name:desc"] as const;
export type SortOrder = (typeof sortOrders)[number];

export const PagingQuery = {
  /** Clamped to 200. */
  limit: Type.Optional(Type.Integer({ minimum: 1 })),
  cursor: Type.Optional(Type.String({ minLength: 1, maxLength: 2048 })),
  sort: Type.Optional(Type.Enum(sortOrders)),
  q: Type.Optional(Type.String({ maxLength: 200 })),
  anchor: Type.Optional(Type.Enum(["end"])),
};

export const PaginationMeta = Type.Object(
  {
    hasMore: Type.Boolean(),
    /** Absent on the last page. */
    nextCursor: Type.Optional(Type.String()),
    total: Type.Integer(),
  },
  { title: "PaginationMeta" },
);
export type PaginationMeta = Static<typeof PaginationMeta>;

/** Either form of a list, by the version the caller asked for. */
export function ListOf<Item extends TSchema>(item: Item) {
  return Type.Union([Type.Array(item), Type.Object({ data: Type.Array(item), meta: PaginationMeta })]);
}
