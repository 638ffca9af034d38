// A volume template and its versions as the control plane keeps them, and how they are shown.
import type { Selectable } from "kysely";
import type {
  VolumeTemplate,
  VolumeTemplateVersion,
  VolumeTemplateVersionStatus,
} from "../../contract/volume-template.ts";
import type { VolumeTemplateVersionsTable } from "../db/tables/volume-template-versions.ts";
import type { VolumeTemplatesTable } from "../db/tables/volume-templates.ts";

export type TemplateRow = Selectable<VolumeTemplatesTable>;
export type VersionRow = Selectable<VolumeTemplateVersionsTable>;

/** What a caller decides about a template. */
export type TemplateDraft = {
  displayName: string | undefined;
  externalId: string | undefined;
  labels: Record<string, string> | undefined;
  defaultSizeMb: number | undefined;
  description: string | undefined;
};

/** The versions in the order they were first asked for. */
export type TemplateRecord = { row: TemplateRow; versions: VersionRow[] };

export type VersionRecord = {
  workspaceId: string;
  templateId: string;
  versionId: string;
  name: string;
  status: VolumeTemplateVersionStatus;
  bucket: string;
};

export function fromVersionRow(row: VersionRow): VersionRecord {
  return {
    workspaceId: row.workspace_id,
    templateId: row.template_id,
    versionId: row.version_id,
    name: row.name,
    status: row.status,
    bucket: row.bucket,
  };
}

export function toColumns(draft: TemplateDraft) {
  return {
    display_name: draft.displayName ?? null,
    external_id: draft.externalId ?? null,
    labels: draft.labels === undefined ? null : JSON.stringify(draft.labels),
    default_size_mb: draft.defaultSizeMb ?? null,
    description: draft.description ?? null,
  };
}

export type Surroundings = { workspace: string; region: string };

export function presentTemplate({ row, versions }: TemplateRecord, surroundings: Surroundings): VolumeTemplate {
  const { workspace } = surroundings;
  return {
    metadata: {
      name: row.name,
      ...(row.display_name !== null && { displayName: row.display_name }),
      ...(row.external_id !== null && { externalId: row.external_id }),
      ...(row.labels !== null && { labels: JSON.parse(row.labels) as Record<string, string> }),
      createdAt: row.created_at,
      updatedAt: row.updated_at,
      createdBy: row.created_by,
      updatedBy: row.updated_by,
      workspace,
    },
    spec: {
      ...(row.default_size_mb !== null && { defaultSize: row.default_size_mb }),
      ...(row.description !== null && { description: row.description }),
    },
    state: presentState(versions),
    versions: versions.map((version) => presentVersion(version, row.name, surroundings)),
  };
}

function presentState(versions: readonly VersionRow[]): VolumeTemplate["state"] {
  const ready = versions.filter(({ status }) => status === "READY");
  const latest = ready.reduce<VersionRow | undefined>(
    (newest, version) => (newest !== undefined && newest.uploaded_at! > version.uploaded_at! ? newest : version),
    undefined,
  );
  const failed = versions.some(({ status }) => status === "FAILED");
  return {
    status: latest !== undefined ? "ready" : failed ? "error" : "created",
    versionCount: versions.length,
    ...(latest !== undefined && { latestVersion: latest.version_id, lastVersionUploadedAt: latest.uploaded_at! }),
  };
}

function presentVersion(row: VersionRow, templateName: string, surroundings: Surroundings): VolumeTemplateVersion {
  return {
    name: row.name,
    status: row.status,
    versionId: row.version_id,
    templateName,
    bucket: row.bucket,
    ...surroundings,
    ...(row.status === "READY" && { contentSize: Number(row.content_size) }),
    ...(row.message !== null && { message: row.message }),
  };
}
