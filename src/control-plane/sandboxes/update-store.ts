// The transactions of an update: applied to the running instance at once, or around a rebuild, which is recorded before the host is
// asked, and switched to or given up with its outcome. Until the switch the sandbox is what it was.
import type { InfrastructureError } from "../../contract/host.ts";
import { allows, statusesThatAllow } from "../../contract/sandbox-status.ts";
import type { Database, Queries } from "../db/database.ts";
import { replaceConnections } from "./creation-store.ts";
import { fromRow, type SandboxRecord, searchTextOf } from "./record.ts";
import { appendEvent } from "./store.ts";
import { adjustUsage, takeUsage, type UsageLimits } from "./usage.ts";

/** What an update replaces. */
export type Changes = Pick<
  SandboxRecord,
  "displayName" | "externalId" | "labels" | "spec" | "sealedEnvs" | "retentionMs" | "updatedBy"
>;

export type NextInstance = { instanceId: string; memoryMb: number };

const updatable = statusesThatAllow("update");
const rebuilt = "The sandbox was rebuilt and runs on a new instance";

export type UpdateStore = ReturnType<typeof createUpdateStore>;

export function createUpdateStore(database: Database) {
  const { kysely } = database;
  return {
    /** Undefined when the sandbox has changed since it was read, or is being rebuilt. */
    async apply({ id, revision }: SandboxRecord, changes: Changes): Promise<SandboxRecord | undefined> {
      const row = await kysely
        .updateTable("sandboxes")
        .set({ ...toColumns(changes), revision: revision + 1 })
        .where("id", "=", id)
        .where("revision", "=", revision)
        .where("status", "in", updatable)
        .where("next_instance_id", "is", null)
        .returningAll()
        .executeTakeFirst();
      if (row === undefined) return undefined;
      await database.flush();
      return fromRow(row);
    },

    /** Whether the rebuild may go on. Room for the larger of both sizes is taken, or `QUOTA_EXCEEDED` thrown. */
    begin: (record: SandboxRecord, next: NextInstance, limits: UsageLimits): Promise<boolean> =>
      database.transact((queries) => begin(queries, record, next, limits)),

    /** Makes the new instance the sandbox's. Undefined when the sandbox does not wait for it any more. */
    async switchOver(
      id: string,
      next: NextInstance & { connections: readonly string[] },
      changes: Changes & { errors: readonly InfrastructureError[] },
    ): Promise<SandboxRecord | undefined> {
      return database.transactDurably((queries) => switchOver(queries, id, next, changes));
    },

    /** The sandbox stays what it was. Whether it still waited for the instance. */
    giveUp: (id: string, instanceId: string): Promise<boolean> =>
      database.transactDurably((queries) => giveUp(queries, id, instanceId)),

    /** Every sandbox that waits for another instance: few at any time, by an index of their own. */
    async listRebuilding(): Promise<{ id: string; nextInstanceId: string }[]> {
      const rows = await kysely
        .selectFrom("sandboxes")
        .select(["id", "next_instance_id"])
        .where("next_instance_id", "is not", null)
        .orderBy("id")
        .execute();
      return rows.flatMap(({ id, next_instance_id: nextInstanceId }) =>
        nextInstanceId === null ? [] : [{ id, nextInstanceId }],
      );
    },
  };
}

async function begin(
  queries: Queries,
  { id, workspaceId, revision, spec }: SandboxRecord,
  next: NextInstance,
  limits: UsageLimits,
): Promise<boolean> {
  const memoryMb = spec.runtime?.memory ?? 0;
  const row = await queries
    .updateTable("sandboxes")
    .set({ next_instance_id: next.instanceId, memory_mb: Math.max(memoryMb, next.memoryMb) })
    .where("id", "=", id)
    .where("revision", "=", revision)
    .where("status", "in", updatable)
    .where("next_instance_id", "is", null)
    .returning("id")
    .executeTakeFirst();
  if (row === undefined) return false;
  const moreMb = next.memoryMb - memoryMb;
  if (moreMb > 0) await takeUsage(queries, workspaceId, { sandboxes: 0, memoryMb: moreMb }, limits);
  return true;
}

async function switchOver(
  queries: Queries,
  id: string,
  { instanceId, memoryMb, connections }: NextInstance & { connections: readonly string[] },
  { errors, ...changes }: Changes & { errors: readonly InfrastructureError[] },
): Promise<SandboxRecord | undefined> {
  const waiting = await queries
    .selectFrom("sandboxes")
    .select("memory_mb")
    .where("id", "=", id)
    .where("next_instance_id", "=", instanceId)
    .executeTakeFirst();
  if (waiting === undefined) return undefined;
  const row = await queries
    .updateTable("sandboxes")
    .set((set) => ({
      ...toColumns(changes),
      revision: set("revision", "+", 1),
      errors: JSON.stringify(errors),
      instance_id: instanceId,
      next_instance_id: null,
      memory_mb: memoryMb,
    }))
    .where("id", "=", id)
    .where("next_instance_id", "=", instanceId)
    .where("status", "in", updatable)
    .returningAll()
    .executeTakeFirst();
  if (row === undefined) return undefined;
  const { workspace_id: workspaceId, revision, updated_at: time, status } = row;
  await adjustUsage(queries, workspaceId, { sandboxes: 0, memoryMb: memoryMb - waiting.memory_mb });
  await replaceConnections(queries, { id, workspaceId }, connections);
  await appendEvent(queries, id, { revision, time, status, message: rebuilt });
  return fromRow(row);
}

async function giveUp(queries: Queries, id: string, instanceId: string): Promise<boolean> {
  const row = await queries
    .selectFrom("sandboxes")
    .select(["workspace_id", "status", "spec", "memory_mb"])
    .where("id", "=", id)
    .where("next_instance_id", "=", instanceId)
    .executeTakeFirst();
  if (row === undefined) return false;
  const memoryMb = (JSON.parse(row.spec) as SandboxRecord["spec"]).runtime?.memory ?? 0;
  const given = await queries
    .updateTable("sandboxes")
    .set({ next_instance_id: null, memory_mb: memoryMb })
    .where("id", "=", id)
    .where("next_instance_id", "=", instanceId)
    .where("status", "=", row.status)
    .returning("id")
    .executeTakeFirst();
  if (given === undefined) return false;
  // One that does not hold its name has given everything back already.
  const returnedMb = allows(row.status, "hold_name") ? row.memory_mb - memoryMb : 0;
  await adjustUsage(queries, row.workspace_id, { sandboxes: 0, memoryMb: -returnedMb });
  return true;
}

function toColumns({ displayName, externalId, labels, spec, sealedEnvs, retentionMs, updatedBy }: Changes) {
  return {
    display_name: displayName ?? null,
    external_id: externalId ?? null,
    labels: labels === undefined ? null : JSON.stringify(labels),
    search_text: searchTextOf({ displayName, labels }),
    spec: JSON.stringify(spec),
    sealed_envs: sealedEnvs ?? null,
    enabled: spec.enabled === false ? 0 : 1,
    retention_ms: retentionMs,
    updated_by: updatedBy,
    updated_at: new Date().toISOString(),
  };
}
