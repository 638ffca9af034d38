// Queries about sandboxes. Hot reads are prepared; every change is one transaction that also records its event.
import type { InfrastructureError, SandboxRoute } from "../../contract/host.ts";
import type { CoreEvent } from "../../contract/metadata.ts";
import { allows, type SandboxStatus } from "../../contract/sandbox-status.ts";
import type { Database, Queries } from "../db/database.ts";
import { describeStatus, eventsMax, statusEventType } from "./events.ts";
import { forgetAt, fromEventRow, fromRow, type SandboxRecord, type SandboxRow } from "./record.ts";
import { adjustUsage } from "./usage.ts";

export type StatusChange = {
  from: readonly SandboxStatus[];
  to: SandboxStatus;
  message?: string;
  by?: string;
  /** Changes only while this is the instance that serves it. */
  instanceId?: string;
  errors?: readonly InfrastructureError[];
};

/** A sandbox and the instances that belong to it. */
export type OwnedInstances = { id: string; instanceId: string; nextInstanceId: string | undefined };

export type SandboxStore = ReturnType<typeof createSandboxStore>;

export function createSandboxStore(database: Database) {
  const { kysely } = database;
  return {
    ...createReads(database),

    /** Whether it was in one of the statuses and so has changed. */
    changeStatus: (id: string, change: StatusChange): Promise<boolean> =>
      database.transactDurably((queries) => changeStatus(queries, id, change)),

    /** Removes the record and its events, if it is in that status. */
    remove: (id: string, status: SandboxStatus): Promise<boolean> =>
      database.transactDurably((queries) => remove(queries, id, status)),

    /** Replaces the list of its failures, unless it has changed since it was read. */
    async recordFailures({ id, revision }: SandboxRecord, failures: readonly InfrastructureError[]): Promise<boolean> {
      const row = await kysely
        .updateTable("sandboxes")
        .set({ errors: JSON.stringify(failures), revision: revision + 1 })
        .where("id", "=", id)
        .where("revision", "=", revision)
        .returning("id")
        .executeTakeFirst();
      return row !== undefined;
    },

    /** In the order of ids, for walks over many. */
    async listOwned(statuses: readonly SandboxStatus[], afterId: string, limit: number): Promise<OwnedInstances[]> {
      const rows = await kysely
        .selectFrom("sandboxes")
        .select(["id", "instance_id", "next_instance_id"])
        .where("status", "in", statuses)
        .where("id", ">", afterId)
        .orderBy("id")
        .limit(limit)
        .execute();
      return rows.map(({ id, instance_id: instanceId, next_instance_id: next }) => {
        return { id, instanceId, nextInstanceId: next ?? undefined };
      });
    },

    /** The name of a sandbox that holds one and whose environment refers to the connection, or undefined. */
    async findUserOfConnection(workspaceId: string, connection: string): Promise<string | undefined> {
      const row = await kysely
        .selectFrom("sandbox_connections")
        .innerJoin("sandboxes", "sandboxes.id", "sandbox_connections.sandbox_id")
        .select("sandboxes.name")
        .where("sandbox_connections.workspace_id", "=", workspaceId)
        .where("sandbox_connections.connection_name", "=", connection)
        .where("sandboxes.holds_name", "=", 1)
        .limit(1)
        .executeTakeFirst();
      return row?.name;
    },
  };
}

const goneStatuses = ["DELETING", "TERMINATED"].map((status) => `'${status}'`).join(", ");

function createReads(database: Database) {
  // Whoever holds the name comes first, else the newest of those that had it.
  const named = "where workspace_id = ? and name = ? order by holds_name desc, created_at desc limit 1";
  const byName = database.prepareRead<SandboxRow>(`select * from sandboxes ${named}`);
  const revisionByName = database.prepareRememberedRead<{ id: string; revision: number }>(
    `select id, revision from sandboxes ${named}`,
  );
  const byExternalId = database.prepareRead<SandboxRow>(
    `select * from sandboxes where workspace_id = ? and external_id = ? and status not in (${goneStatuses})
      order by created_at desc, id desc limit 1`,
  );
  const byId = database.prepareRead<SandboxRow>("select * from sandboxes where id = ?");
  const events = database.prepareRead<{ time: string; type: string; status: string; message: string }>(
    "select time, type, status, message from sandbox_events where sandbox_id = ? order by seq",
  );
  const route = database.prepareRememberedRead<{ instance_id: string; status: SandboxStatus; enabled: number }>(
    `select s.instance_id, s.status, s.enabled from sandboxes s join workspaces w on w.id = s.workspace_id
      where w.name = ? and s.name = ? and s.holds_name = 1`,
  );
  return {
    async findByName(workspaceId: string, name: string): Promise<SandboxRecord | undefined> {
      const row = await byName.first(workspaceId, name);
      return row && fromRow(row);
    },
    /** The newest of them that is not gone. */
    async findByExternalId(workspaceId: string, externalId: string): Promise<SandboxRecord | undefined> {
      const row = await byExternalId.first(workspaceId, externalId);
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
      return row && { instanceId: row.instance_id, status: row.status, enabled: row.enabled === 1 };
    },
  };
}

async function remove(queries: Queries, id: string, status: SandboxStatus): Promise<boolean> {
  const row = await queries
    .deleteFrom("sandboxes")
    .where("id", "=", id)
    .where("status", "=", status)
    .returning(["workspace_id", "holds_name", "memory_mb"])
    .executeTakeFirst();
  if (row === undefined) return false;
  const sandboxes = -row.holds_name;
  await adjustUsage(queries, row.workspace_id, { sandboxes, memoryMb: sandboxes * row.memory_mb });
  await releaseKey(queries, id);
  return true;
}

export async function changeStatus(queries: Queries, id: string, change: StatusChange): Promise<boolean> {
  const now = new Date().toISOString();
  const holds = (status: SandboxStatus): boolean => allows(status, "hold_name");
  // Which of both it came from decides what the workspace's usage changes by.
  for (const held of [true, false]) {
    const from = change.from.filter((status) => holds(status) === held);
    const changed = from.length === 0 ? undefined : await updateStatus(queries, id, { ...change, from }, now);
    if (changed === undefined) continue;
    const { revision, workspace_id: workspaceId, memory_mb: memoryMb, retention_ms: retentionMs } = changed;
    if (change.to === "TERMINATED") {
      const update = queries.updateTable("sandboxes").set({ forget_at: forgetAt(now, retentionMs) });
      await update.where("id", "=", id).execute();
    }
    const sandboxes = Number(holds(change.to)) - Number(held);
    await adjustUsage(queries, workspaceId, { sandboxes, memoryMb: sandboxes * memoryMb });
    await appendEvent(queries, id, { revision, time: now, status: change.to, message: change.message });
    if (change.to === "DELETING") await releaseKey(queries, id);
    // Their addresses are those of the sandbox that has the name next.
    if (!holds(change.to)) await queries.deleteFrom("previews").where("sandbox_id", "=", id).execute();
    return true;
  }
  return false;
}

function updateStatus(queries: Queries, id: string, { from, to, by, errors, instanceId }: StatusChange, now: string) {
  const update = queries
    .updateTable("sandboxes")
    .set((set) => ({
      revision: set("revision", "+", 1),
      status: to,
      holds_name: allows(to, "hold_name") ? 1 : 0,
      updated_at: now,
      ...(by !== undefined && { updated_by: by }),
      ...(to === "TERMINATED" && { terminated_at: now }),
      ...(errors !== undefined && { errors: JSON.stringify(errors) }),
    }))
    .where("id", "=", id)
    .where("status", "in", from)
    .returning(["revision", "workspace_id", "memory_mb", "retention_ms"]);
  return (instanceId === undefined ? update : update.where("instance_id", "=", instanceId)).executeTakeFirst();
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
