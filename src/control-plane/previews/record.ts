// A preview and its tokens as the control plane keeps them, how they are read from and written to rows, and how answers show them.
import type { Selectable } from "kysely";
import type { CoreEvent } from "../../contract/metadata.ts";
import type { Preview, PreviewInput, PreviewToken } from "../../contract/preview.ts";
import type { PreviewTokensTable } from "../db/tables/preview-tokens.ts";
import type { PreviewsTable } from "../db/tables/previews.ts";

export type PreviewSettings = Pick<
  PreviewInput["spec"],
  "prefixUrl" | "expires" | "ttl" | "requestHeaders" | "responseHeaders"
>;

export type PreviewRecord = {
  id: string;
  workspaceId: string;
  sandboxId: string;
  name: string;
  revision: number;
  label: string;
  displayName: string | undefined;
  port: number;
  isPublic: boolean;
  spec: PreviewSettings;
  expiresAt: string | undefined;
  events: readonly CoreEvent[];
  createdAt: string;
  updatedAt: string;
  createdBy: string;
  updatedBy: string;
};

export type PreviewRow = Selectable<PreviewsTable>;
export type TokenRow = Selectable<PreviewTokensTable>;

/** Kept and shown; older ones leave. */
const eventsMax = 20;

export function appendEvent(
  events: readonly CoreEvent[],
  time: string,
  revision: number,
  message: string,
): readonly CoreEvent[] {
  const event = { time, type: "status", status: "DEPLOYED", revision: String(revision), message };
  return [...events, event].slice(-eventsMax);
}

export function toRow(record: PreviewRecord): PreviewRow {
  return {
    id: record.id,
    workspace_id: record.workspaceId,
    sandbox_id: record.sandboxId,
    name: record.name,
    revision: record.revision,
    label: record.label,
    display_name: record.displayName ?? null,
    port: record.port,
    is_public: Number(record.isPublic),
    spec: JSON.stringify(record.spec),
    expires_at: record.expiresAt ?? null,
    events: JSON.stringify(record.events),
    created_at: record.createdAt,
    updated_at: record.updatedAt,
    created_by: record.createdBy,
    updated_by: record.updatedBy,
  };
}

export function fromRow(row: PreviewRow): PreviewRecord {
  return {
    id: row.id,
    workspaceId: row.workspace_id,
    sandboxId: row.sandbox_id,
    name: row.name,
    revision: row.revision,
    label: row.label,
    displayName: row.display_name ?? undefined,
    port: row.port,
    isPublic: row.is_public === 1,
    spec: JSON.parse(row.spec) as PreviewSettings,
    expiresAt: row.expires_at ?? undefined,
    events: JSON.parse(row.events) as CoreEvent[],
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    createdBy: row.created_by,
    updatedBy: row.updated_by,
  };
}

/** Where a preview stands: the sandbox and the workspace by their names. */
export type Place = { sandboxName: string; workspace: string };

export function presentPreview(
  record: PreviewRecord,
  { sandboxName, workspace }: Place,
  { url, region }: { url: string; region: string },
): Preview {
  return {
    metadata: {
      name: record.name,
      displayName: record.displayName,
      resourceName: sandboxName,
      resourceType: "sandbox",
      workspace,
      createdAt: record.createdAt,
      updatedAt: record.updatedAt,
      createdBy: record.createdBy,
      updatedBy: record.updatedBy,
    },
    spec: { ...record.spec, port: record.port, public: record.isPublic, region, url },
    status: "DEPLOYED",
    events: [...record.events],
  };
}

export function presentToken(
  { name, expires_at: expiresAt }: Pick<TokenRow, "name" | "expires_at">,
  previewName: string,
  { sandboxName, workspace }: Place,
  value?: string,
): PreviewToken {
  return {
    metadata: { name, previewName, resourceName: sandboxName, resourceType: "sandbox", workspace },
    spec: {
      token: value,
      expiresAt: expiresAt ?? undefined,
      expired: expiresAt !== null && expiresAt <= new Date().toISOString(),
    },
  };
}
