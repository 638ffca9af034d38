// Pages of a workspace's policies. There are at most a hundred, so a page is cut from all of them.
import type { Static } from "typebox";
import { type PaginationMeta, pageLimitDefault, pageLimitMax, type SortOrder } from "../../contract/page.ts";
import type { listPolicies, Policy } from "../../contract/policy.ts";
import { AppError } from "../../core/errors.ts";
import type { SealKey } from "../../core/seal.ts";
import type { Caller } from "../auth/caller.ts";
import type { PolicyService } from "./service.ts";

const cursorTtlMs = 86_400_000;
/** Shorter texts are not searched for. */
const searchMinLength = 2;

export type PolicyQuery = Static<(typeof listPolicies)["query"]>;
type Page = { data: Policy[]; meta: PaginationMeta };
type Item = Awaited<ReturnType<PolicyService["listAll"]>>[number];

export function createPolicyList(service: PolicyService, sealKey: SealKey) {
  return async (caller: Caller, query: PolicyQuery): Promise<Page> => {
    const { sort = "createdAt:desc", q = "", anchor, cursor } = query;
    if (anchor !== undefined && !sort.startsWith("createdAt"))
      throw new AppError("invalid_request", "query parameter anchor needs a sort by createdAt");
    const limit = Math.min(query.limit ?? pageLimitDefault, pageLimitMax);
    const search = q.trim().toLowerCase();
    const boundTo = `cursor:${sealKey.fingerprint(JSON.stringify(["policies", caller.workspaceId, search, sort]))}`;
    const items = (await service.listAll(caller)).filter(({ policy }) => matches(policy, search));
    const sorted = items.sort((left, right) => compare(keyOf(left, sort), keyOf(right, sort), sort));
    const after = cursor === undefined ? undefined : openCursor(sealKey, cursor, boundTo);
    const rest = after === undefined ? sorted : sorted.filter((item) => compare(after, keyOf(item, sort), sort) < 0);
    const shown = anchor === "end" && after === undefined ? rest.slice(-limit) : rest.slice(0, limit);
    const last = shown.at(-1);
    const hasMore = last !== undefined && last !== rest.at(-1);
    const nextCursor = hasMore
      ? { nextCursor: sealKey.seal(JSON.stringify([keyOf(last, sort), Date.now() + cursorTtlMs]), boundTo) }
      : {};
    return { data: shown.map(({ policy }) => policy), meta: { hasMore, ...nextCursor, total: items.length } };
  };
}

function matches({ metadata: { name, displayName = "", labels = {} } }: Policy, search: string): boolean {
  if (search.length < searchMinLength) return true;
  return [name, displayName, ...Object.entries(labels).flat()].some((text) => text.toLowerCase().includes(search));
}

/** The id decides between equals. */
type Key = [value: string, id: string];

function keyOf({ record }: Item, sort: SortOrder): Key {
  return [sort.startsWith("name") ? record.name : record.createdAt, record.id];
}

function compare(left: Key, right: Key, sort: SortOrder): number {
  const order =
    left[0] === right[0] ? (left[1] < right[1] ? -1 : Number(left[1] > right[1])) : left[0] < right[0] ? -1 : 1;
  return sort.endsWith("desc") ? -order : order;
}

function openCursor(sealKey: SealKey, cursor: string, boundTo: string): Key {
  try {
    const [key, expiresAt] = JSON.parse(sealKey.open(cursor, boundTo)) as [Key, number];
    if (expiresAt > Date.now()) return key;
  } catch {
    // Falls through: a cursor that does not open is answered like one that has expired.
  }
  throw new AppError("invalid_request", "The cursor has expired, or belongs to another list.");
}
