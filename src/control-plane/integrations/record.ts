// An integration connection as the control plane keeps it, how it is read from and written to its row, and how answers show it.
import type { Selectable } from "kysely";
import { connectionSecretMask, type IntegrationConnection } from "../../contract/integration.ts";
import type { IntegrationConnectionsTable } from "../db/tables/integration-connections.ts";

export type Texts = Readonly<Record<string, string>>;

export type ConnectionRecord = {
  id: string;
  workspaceId: string;
  name: string;
  revision: number;
  displayName: string | undefined;
  externalId: string | undefined;
  labels: Texts | undefined;
  /** The kind of service; undefined for a plain store of credentials. */
  integration: string | undefined;
  sandbox: boolean | undefined;
  config: Texts | undefined;
  secretKeys: readonly string[] | undefined;
  sealedSecret: string | undefined;
  createdAt: string;
  updatedAt: string;
  createdBy: string;
  updatedBy: string;
};

export type ConnectionRow = Selectable<IntegrationConnectionsTable>;

export function toRow(record: ConnectionRecord): ConnectionRow {
  return {
    id: record.id,
    workspace_id: record.workspaceId,
    name: record.name,
    revision: record.revision,
    display_name: record.displayName ?? null,
    external_id: record.externalId ?? null,
    labels: toJson(record.labels),
    integration: record.integration ?? null,
    sandbox: record.sandbox === undefined ? null : Number(record.sandbox),
    config: toJson(record.config),
    secret_keys: toJson(record.secretKeys),
    sealed_secret: record.sealedSecret ?? null,
    created_at: record.createdAt,
    updated_at: record.updatedAt,
    created_by: record.createdBy,
    updated_by: record.updatedBy,
  };
}

export function fromRow(row: ConnectionRow): ConnectionRecord {
  return {
    id: row.id,
    workspaceId: row.workspace_id,
    name: row.name,
    revision: row.revision,
    displayName: row.display_name ?? undefined,
    externalId: row.external_id ?? undefined,
    labels: fromJson(row.labels),
    integration: row.integration ?? undefined,
    sandbox: row.sandbox === null ? undefined : row.sandbox === 1,
    config: fromJson(row.config),
    secretKeys: fromJson(row.secret_keys),
    sealedSecret: row.sealed_secret ?? undefined,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    createdBy: row.created_by,
    updatedBy: row.updated_by,
  };
}

export function presentConnection(record: ConnectionRecord, workspace: string): IntegrationConnection {
  const { integration, sandbox, config, secretKeys } = record;
  return {
    metadata: {
      name: record.name,
      displayName: record.displayName,
      externalId: record.externalId,
      labels: record.labels,
      createdAt: record.createdAt,
      updatedAt: record.updatedAt,
      createdBy: record.createdBy,
      updatedBy: record.updatedBy,
      workspace,
    },
    spec: {
      integration,
      sandbox,
      config,
      secret: secretKeys && Object.fromEntries(secretKeys.map((key) => [key, connectionSecretMask])),
    },
  };
}

/** What a connection's sealed secret is bound to. */
export function secretOf(connectionId: string): string {
  return `connection:${connectionId}`;
}

function toJson(value: object | undefined): string | null {
  return value === undefined ? null : JSON.stringify(value);
}

function fromJson<Value>(text: string | null): Value | undefined {
  return text === null ? undefined : (JSON.parse(text) as Value);
}
