// Queries about sandboxes. Hot reads are prepared; every change is one transaction that also records its event.
import type { InfrastructureError, SandboxRoute } from "../../contract/host.ts";
import type { CoreEvent } from "../../contract/metadata.ts";
import { allows, type SandboxStatus } from "../../contract/sandbox-status.ts";
import type { Database, Queries } from "../db/database.ts";
import { describeStatus, eventsMax, statusEventType } from "./events.ts";
import { fromEventRow, fromRow, type SandboxRecord, type SandboxRow } from "./record.ts";

export type StatusChange = {
  from: readonly SandboxStatus[];
  to: SandboxStatus;
  message?: string;
  by?: string;
  errors?: readonly InfrastructureError[];
};

export type SandboxStore = ReturnType<typeof createSandboxStore>;

export function createSandboxStore(database: Database) {
  const { kysely } = database;
  return {
    ...createReads(database),

    /** Whether it was in one of the statuses and so has changed. */
    async changeStatus(id: string, change: StatusChange): Promise<boolean> {
      const changed = await kysely.transaction().execute((queries) => changeStatus(queries, id, change));
      if (changed) await database.flush();
      return changed;
    },

    /** Removes the record and its events, if it is in that status. */
    async remove(id: string, status: SandboxStatus): Promise<boolean> {
      const removed = await kysely.transaction().execute(async (queries) => {
        const row = await queries
          .deleteFrom("sandboxes")
          .where("id", "=", id)
          .where("status", "=", status)
          .returning("id")
          .executeTakeFirst();
        if (row === undefined) return false;
        await releaseKey(queries, id);
        return true;
      });
      if (removed) await database.flush();
      return removed;
    },

    async countHeld(workspaceId: string): Promise<number> {
      const { count } = await kysely
        .selectFrom("sandboxes")
        .select((select) => select.fn.countAll<number | string>().as("count"))
        .where("workspace_id", "=", workspaceId)
        .where("holds_name", "=", 1)
        .executeTakeFirstOrThrow();
      return Number(count);
    },

    /** In the order of ids, for walks over many. */
    async listIds(statuses: readonly SandboxStatus[], afterId: string, limit: number): Promise<string[]> {
      const rows = await kysely
        .selectFrom("sandboxes")
        .select("id")
        .where("status", "in", statuses)
        .where("id", ">", afterId)
        .orderBy("id")
        .limit(limit)
        .execute();
      return rows.map(({ id }) => id);
    },
  };
}

function createReads(database: Database) {
  // Whoever holds the name comes first, else the newest of those that had it.
  const named = "where workspace_id = ? and name = ? order by holds_name desc, created_at desc limit 1";
  const byName = database.prepareRead<SandboxRow>(`select * from sandboxes ${named}`);
  const revisionByName = database.prepareRememberedRead<{ id: string; revision: number }>(
    `select id, revision from sandboxes ${named}`,
  );
  const byId = database.prepareRead<SandboxRow>("select * from sandboxes where id = ?");
  const events = database.prepareRead<{ time: string; type: string; status: string; message: string }>(
    "select time, type, status, message from sandbox_events where sandbox_id = ? order by seq",
  );
  const route = database.prepareRememberedRead<{ id: string; status: SandboxStatus; enabled: number }>(
    `select s.id, s.status, s.enabled from sandboxes s join workspaces w on w.id = s.workspace_id
      where w.name = ? and s.name = ? and s.holds_name = 1`,
  );
  return {
    async findByName(workspaceId: string, name: string): Promise<SandboxRecord | undefined> {
      const row = await byName.first(workspaceId, name);
      return row && fromRow(row);
    },
    /** Which record a name stands for and whether it has changed: a fraction of the cost of reading it. */
    findRevision: (workspaceId: string, name: string) => revisionByName.first(workspaceId, name),
    async findById(id: string): Promise<SandboxRecord | undefined> {
      const row = await byId.first(id);
      return row && fromRow(row);
    },
    findEvents: async (id: string): Promise<CoreEvent[]> => (await events.all(id)).map(fromEventRow),
    async findRoute(workspace: string, name: string): Promise<SandboxRoute | undefined> {
      const row = await route.first(workspace, name);
      return row && { instanceId: row.id, status: row.status, enabled: row.enabled === 1 };
    },
  };
}

export async function changeStatus(queries: Queries, id: string, change: StatusChange): Promise<boolean> {
  const now = new Date().toISOString();
  const changed = await queries
    .updateTable("sandboxes")
    .set((set) => ({
      revision: set("revision", "+", 1),
      status: change.to,
      holds_name: allows(change.to, "hold_name") ? 1 : 0,
      updated_at: now,
      ...(change.by !== undefined && { updated_by: change.by }),
      ...(change.to === "TERMINATED" && { terminated_at: now }),
      ...(change.errors !== undefined && { errors: JSON.stringify(change.errors) }),
    }))
    .where("id", "=", id)
    .where("status", "in", change.from)
    .returning("revision")
    .executeTakeFirst();
  if (changed === undefined) return false;
  await appendEvent(queries, id, { ...changed, time: now, status: change.to, message: change.message });
  if (change.to === "DELETING") await releaseKey(queries, id);
  return true;
}

/** A creation that ended without an answer may be asked for again under the same key. */
async function releaseKey(queries: Queries, sandboxId: string): Promise<void> {
  await queries
    .deleteFrom("idempotency_keys")
    .where("sandbox_id", "=", sandboxId)
    .where("sealed_answer", "is", null)
    .execute();
}

/** An event has the number of the revision that it came with; the oldest leaves when there are too many. */
export async function appendEvent(
  queries: Queries,
  sandboxId: string,
  event: { revision: number; time: string; status: SandboxStatus; message?: string | undefined },
): Promise<void> {
  const { revision, time, status, message = describeStatus(status) } = event;
  await queries
    .insertInto("sandbox_events")
    .values({ sandbox_id: sandboxId, seq: revision, time, type: statusEventType, status, message })
    .execute();
  if (revision <= eventsMax) return;
  const oldest = queries
    .selectFrom("sandbox_events")
    .select("seq")
    .where("sandbox_id", "=", sandboxId)
    .orderBy("seq", "desc")
    .offset(eventsMax)
    .limit(1);
  await queries.deleteFrom("sandbox_events").where("sandbox_id", "=", sandboxId).where("seq", "<=", oldest).execute();
}
