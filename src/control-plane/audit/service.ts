// The audit log: what is recorded, how it is read, and how much of it is kept.
import type { AuditEntry, AuditPage, AuditQuery } from "../../contract/audit-log.ts";
import { pageLimitDefault } from "../../contract/page.ts";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import { startLoop } from "../../core/loop.ts";
import type { AuditLogTable } from "../db/tables/audit-log.ts";
import type { AuditStore } from "./store.ts";
import { AuditWriter, firstIdAt } from "./writer.ts";

export type AuditConfig = { retentionMs: number; entriesMax: number };

export type AuditDraft = Omit<AuditLogTable, "id" | "at">;

export type AuditService = {
  /** Resolves once the entry is durable. A database that fails is reported in the log, with the entry. */
  record(draft: AuditDraft): Promise<void>;
  /** Of one workspace, or of the whole installation. */
  list(workspaceId: string | undefined, query: AuditQuery): Promise<AuditPage>;
  /** Removes what is older or more than is kept; runs by itself from time to time. */
  purge(): Promise<void>;
};

export type AuditOptions = { store: AuditStore; config: AuditConfig; log: Logger; opened: AsyncDisposableStack };

const purgeIntervalMs = 600_000;
const purgePortion = 1_000;
const purgeRoundsMax = 100;

export function createAuditService({ store, config, log, opened }: AuditOptions): AuditService {
  const writer = new AuditWriter(store, log);
  opened.defer(() => writer.finish());
  const purge = (): Promise<void> => purgeOld(store, config);
  opened.use(startLoop({ name: "audit log", intervalMs: purgeIntervalMs, log, work: purge }));
  return {
    purge,
    record: (draft) => writer.write(draft),
    async list(workspaceId, { limit = pageLimitDefault, cursor, sub, since }) {
      const filter = {
        workspaceId,
        principalId: sub,
        before: cursor === undefined ? undefined : readCursor(cursor),
        from: since === undefined ? undefined : firstIdAt(readTime(since)),
      };
      const rows = await store.list(filter, limit + 1);
      const shown = rows.slice(0, limit);
      const hasMore = rows.length > limit;
      return { data: shown.map(present), meta: { hasMore, ...(hasMore && { nextCursor: shown.at(-1)!.id }) } };
    },
  };
}

async function purgeOld(store: AuditStore, { retentionMs, entriesMax }: AuditConfig): Promise<void> {
  const expired = firstIdAt(Date.now() - retentionMs);
  const oldestKept = await store.findOldestOf(entriesMax);
  const before = [expired, oldestKept ?? expired].toSorted().at(-1)!;
  for (let round = 0; round < purgeRoundsMax; round += 1) {
    if ((await store.purge(before, purgePortion)) < purgePortion) return;
  }
}

function readCursor(cursor: string): string {
  if (/^[a-z0-9]{15,24}$/.test(cursor)) return cursor;
  throw new AppError("invalid_request", "query parameter cursor is not one of this list");
}

function readTime(text: string): number {
  const ms = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isFinite(ms)) return ms;
  throw new AppError("invalid_request", "query parameter since must be an ISO 8601 time");
}

function present(row: AuditLogTable): AuditEntry {
  return {
    id: row.id,
    time: row.at,
    workspace: row.workspace ?? undefined,
    sub: row.principal_id ?? undefined,
    subName: row.principal_name ?? undefined,
    sub_type: row.principal_kind ?? undefined,
    credential: row.credential_id ?? undefined,
    operation: row.operation,
    resource: row.resource ?? undefined,
    status: row.status,
    error: row.error ?? undefined,
    address: row.address ?? undefined,
    requestId: row.request_id,
  };
}
