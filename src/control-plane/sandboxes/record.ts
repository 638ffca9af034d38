// A sandbox as the control plane keeps it, and how it is read from and written to its row.
import type { Selectable } from "kysely";
import type { InfrastructureError } from "../../contract/host.ts";
import type { CoreEvent } from "../../contract/metadata.ts";
import type { SandboxSpec } from "../../contract/sandbox-spec.ts";
import { allows, type SandboxStatus } from "../../contract/sandbox-status.ts";
import type { SandboxEventsTable } from "../db/tables/sandbox-events.ts";
import type { SandboxesTable } from "../db/tables/sandboxes.ts";
import { formatSearchText } from "../paging.ts";

export type SandboxRecord = {
  id: string;
  /** Of the instance that serves it. */
  instanceId: string;
  /** While it is being rebuilt: of the instance that will serve it. */
  nextInstanceId: string | undefined;
  workspaceId: string;
  name: string;
  /** Goes up with every change, events included. */
  revision: number;
  status: SandboxStatus;
  displayName: string | undefined;
  externalId: string | undefined;
  labels: Record<string, string> | undefined;
  /** Without the environment. */
  spec: SandboxSpec;
  sealedEnvs: string | undefined;
  errors: readonly InfrastructureError[];
  createdAt: string;
  updatedAt: string;
  createdBy: string;
  updatedBy: string;
  terminatedAt: string | undefined;
  retentionMs: number;
};

export type SandboxRow = Selectable<SandboxesTable>;

export function toRow(record: SandboxRecord): SandboxRow {
  return {
    id: record.id,
    instance_id: record.instanceId,
    next_instance_id: record.nextInstanceId ?? null,
    memory_mb: record.spec.runtime?.memory ?? 0,
    workspace_id: record.workspaceId,
    name: record.name,
    revision: record.revision,
    status: record.status,
    holds_name: allows(record.status, "hold_name") ? 1 : 0,
    display_name: record.displayName ?? null,
    external_id: record.externalId ?? null,
    labels: record.labels === undefined ? null : JSON.stringify(record.labels),
    search_text: searchTextOf(record),
    spec: JSON.stringify(record.spec),
    sealed_envs: record.sealedEnvs ?? null,
    enabled: record.spec.enabled === false ? 0 : 1,
    errors: record.errors.length === 0 ? null : JSON.stringify(record.errors),
    created_at: record.createdAt,
    updated_at: record.updatedAt,
    created_by: record.createdBy,
    updated_by: record.updatedBy,
    terminated_at: record.terminatedAt ?? null,
    retention_ms: record.retentionMs,
    forget_at: record.terminatedAt === undefined ? null : forgetAt(record.terminatedAt, record.retentionMs),
  };
}

/** What lists search in besides the name. */
export function searchTextOf({ displayName, labels }: Pick<SandboxRecord, "displayName" | "labels">): string | null {
  const pieces = [...(displayName === undefined ? [] : [displayName]), ...Object.entries(labels ?? {}).flat()];
  return pieces.length === 0 ? null : formatSearchText(pieces);
}

export function forgetAt(terminatedAt: string, retentionMs: number): string {
  return new Date(Date.parse(terminatedAt) + retentionMs).toISOString();
}

export function fromRow(row: SandboxRow): SandboxRecord {
  return {
    id: row.id,
    instanceId: row.instance_id,
    nextInstanceId: row.next_instance_id ?? undefined,
    workspaceId: row.workspace_id,
    name: row.name,
    revision: row.revision,
    status: row.status,
    displayName: row.display_name ?? undefined,
    externalId: row.external_id ?? undefined,
    labels: row.labels === null ? undefined : JSON.parse(row.labels),
    spec: JSON.parse(row.spec),
    sealedEnvs: row.sealed_envs ?? undefined,
    errors: row.errors === null ? [] : JSON.parse(row.errors),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    createdBy: row.created_by,
    updatedBy: row.updated_by,
    terminatedAt: row.terminated_at ?? undefined,
    retentionMs: row.retention_ms,
  };
}

export function fromEventRow({
  time,
  type,
  status,
  message,
}: Omit<SandboxEventsTable, "sandbox_id" | "seq">): CoreEvent {
  return { time, type, status, message };
}

/** Whether the record of a terminated sandbox has been kept long enough. */
export function isPastRetention({ terminatedAt, retentionMs }: SandboxRecord, now: number): boolean {
  return terminatedAt !== undefined && Date.parse(terminatedAt) + retentionMs <= now;
}
