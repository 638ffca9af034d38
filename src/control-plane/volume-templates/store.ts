// Queries about volume templates and their versions; what a limit depends on is counted in the transaction that adds to it.
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import { countRows } from "../db/count-rows.ts";
import type { Database, Queries } from "../db/database.ts";
import { lockWorkspace } from "../db/lock-workspace.ts";
import { type AwaitedVersion, awaitVersion } from "./awaited-version.ts";
import { type TemplateDraft, type TemplateRecord, type TemplateRow, toColumns, type VersionRow } from "./record.ts";

export type Change = {
  workspaceId: string;
  name: string;
  draft: TemplateDraft;
  by: string;
  /** The version an upload URL is asked for, if one is. */
  awaited: AwaitedVersion | undefined;
  /** In the workspace. */
  templatesMax: number;
};

export type Changed = { record: TemplateRecord; awaited: VersionRow | undefined };

export type AwaitedQuery = { bucket: string; endedAfter: string; afterId: string; limit: number };

export type RemovedVersion = { removed: VersionRow; left: TemplateRecord };

/** An archive as it is kept. */
export type StoredObject = { key: string; sizeBytes: number };

type Accepted = "ready" | "gone" | "over_quota";

export type VolumeTemplateStore = ReturnType<typeof createVolumeTemplateStore>;

export function createVolumeTemplateStore(database: Database) {
  const { kysely } = database;
  const change = (given: Change, mode: "create" | "upsert"): Promise<Changed> =>
    database.transactDurably((queries) => changeTemplate(queries, given, mode));
  return {
    create: (given: Change) => change(given, "create"),
    upsert: (given: Change) => change(given, "upsert"),

    async list(workspaceId: string): Promise<TemplateRecord[]> {
      const rows = await kysely
        .selectFrom("volume_templates")
        .selectAll()
        .where("workspace_id", "=", workspaceId)
        .orderBy("created_at", "desc")
        .orderBy("name")
        .execute();
      const versions = Map.groupBy(await findVersions(kysely, workspaceId), ({ template_id }) => template_id);
      return rows.map((row) => ({ row, versions: versions.get(row.id) ?? [] }));
    },

    find: (workspaceId: string, name: string) => findTemplate(kysely, workspaceId, name),

    count: (workspaceId: string) => countTemplates(kysely, workspaceId),

    /** The template as it was, or undefined when there is none. */
    remove: (workspaceId: string, name: string): Promise<TemplateRecord | undefined> =>
      database.transactDurably((queries) => removeTemplate(queries, workspaceId, name)),

    /** Undefined when there is no such version. */
    removeVersion: (workspaceId: string, name: string, version: string): Promise<RemovedVersion | undefined> =>
      database.transactDurably((queries) => removeVersion(queries, workspaceId, name, version)),

    ...createArrivalQueries(database),
  };
}

async function removeTemplate(
  queries: Queries,
  workspaceId: string,
  name: string,
): Promise<TemplateRecord | undefined> {
  await lockWorkspace(queries, workspaceId);
  const record = await findTemplate(queries, workspaceId, name);
  if (record === undefined) return undefined;
  await queries
    .deleteFrom("volume_template_versions")
    .where("workspace_id", "=", workspaceId)
    .where("template_id", "=", record.row.id)
    .execute();
  await queries
    .deleteFrom("volume_templates")
    .where("workspace_id", "=", workspaceId)
    .where("name", "=", name)
    .execute();
  return record;
}

/** Refuses to remove the only version, so that a template that was usable stays so. */
async function removeVersion(
  queries: Queries,
  workspaceId: string,
  name: string,
  version: string,
): Promise<RemovedVersion | undefined> {
  await lockWorkspace(queries, workspaceId);
  const record = await findTemplate(queries, workspaceId, name);
  const found = record?.versions.find((each) => each.name === version);
  if (record === undefined || found === undefined) return undefined;
  if (record.versions.length === 1) {
    throw new AppError("invalid_request", "This is the template's only version; delete the template instead.");
  }
  await queries
    .deleteFrom("volume_template_versions")
    .where("workspace_id", "=", workspaceId)
    .where("version_id", "=", found.version_id)
    .execute();
  return { removed: found, left: { row: record.row, versions: record.versions.filter((each) => each !== found) } };
}

/** About the archives of versions. */
function createArrivalQueries(database: Database) {
  const { kysely } = database;
  const versionById = database.prepareRead<VersionRow>("select * from volume_template_versions where version_id = ?");
  return {
    findVersion: async (versionId: string): Promise<VersionRow | undefined> => versionById.first(versionId),

    usedBytes: (workspaceId: string) => sumBytes(kysely, workspaceId),

    /** Makes an awaited version READY. `gone`: it is not awaited any more. */
    accept: (
      version: Pick<VersionRow, "workspace_id" | "version_id">,
      object: StoredObject,
      workspaceMaxBytes: number,
    ): Promise<Accepted> =>
      database.transactDurably((queries) => acceptObject(queries, version, object, workspaceMaxBytes)),

    async fail(versionId: string, message: string): Promise<void> {
      await kysely
        .updateTable("volume_template_versions")
        .set({ status: "FAILED", message })
        .where("version_id", "=", versionId)
        .where("status", "=", "CREATED")
        .execute();
      await database.flush();
    },

    /** Awaited ones of a bucket whose last URL ended after that moment, in the order of their ids, for walks over many. */
    listAwaited: ({ bucket, endedAfter, afterId, limit }: AwaitedQuery): Promise<VersionRow[]> =>
      kysely
        .selectFrom("volume_template_versions")
        .selectAll()
        .where("status", "=", "CREATED")
        .where("bucket", "=", bucket)
        .where("awaited_until", ">", endedAfter)
        .where("version_id", ">", afterId)
        .orderBy("version_id")
        .limit(limit)
        .execute(),

    /** Those of the versions that are awaited. */
    async listAwaitedIds(versionIds: readonly string[]): Promise<Set<string>> {
      const rows = await kysely
        .selectFrom("volume_template_versions")
        .select("version_id")
        .where("status", "=", "CREATED")
        .where("version_id", "in", versionIds)
        .execute();
      await database.flush();
      return new Set(rows.map(({ version_id }) => version_id));
    },

    /** Those of the keys that a version needs, as of now and durably so. */
    async listOwned(keys: readonly string[]): Promise<Set<string>> {
      const rows = await kysely
        .selectFrom("volume_template_versions")
        .select("object_key")
        .where("object_key", "in", keys)
        .execute();
      // A deletion that a loss of power could still undo must not lose its bytes.
      await database.flush();
      return new Set(rows.map(({ object_key }) => object_key!));
    },
  };
}

async function acceptObject(
  queries: Queries,
  { workspace_id, version_id }: Pick<VersionRow, "workspace_id" | "version_id">,
  { key, sizeBytes }: StoredObject,
  workspaceMaxBytes: number,
): Promise<Accepted> {
  await lockWorkspace(queries, workspace_id);
  if ((await sumBytes(queries, workspace_id)) + sizeBytes > workspaceMaxBytes) return "over_quota";
  const changed = await queries
    .updateTable("volume_template_versions")
    .set({ status: "READY", object_key: key, content_size: sizeBytes, uploaded_at: new Date().toISOString() })
    .where("version_id", "=", version_id)
    .where("status", "=", "CREATED")
    .returning("version_id")
    .executeTakeFirst();
  return changed === undefined ? "gone" : "ready";
}

async function changeTemplate(queries: Queries, change: Change, mode: "create" | "upsert"): Promise<Changed> {
  const { workspaceId, name } = change;
  await lockWorkspace(queries, workspaceId);
  const found = await findTemplate(queries, workspaceId, name);
  if (found !== undefined && mode === "create") {
    throw new AppError("already_exists", "There is a volume template of this name.");
  }
  const record: TemplateRecord =
    found === undefined
      ? { row: await insertTemplate(queries, change), versions: [] }
      : { row: await updateTemplate(queries, change), versions: found.versions };
  if (change.awaited === undefined) return { record, awaited: undefined };
  const { awaited, versionsNumbered } = await awaitVersion(queries, record, change.awaited);
  const row = { ...record.row, versions_numbered: versionsNumbered };
  return { record: { row, versions: await findVersions(queries, workspaceId, row.id) }, awaited };
}

async function insertTemplate(queries: Queries, change: Change): Promise<TemplateRow> {
  const { workspaceId, name, draft, by, templatesMax } = change;
  if ((await countTemplates(queries, workspaceId)) >= templatesMax) {
    const message = `The workspace has ${templatesMax} volume templates, which is the limit.`;
    throw new AppError("forbidden", message, { details: { error: "quota_exceeded" } });
  }
  const now = new Date().toISOString();
  const row: TemplateRow = {
    workspace_id: workspaceId,
    name,
    id: randomToken(16),
    ...toColumns(draft),
    versions_numbered: 0,
    created_at: now,
    updated_at: now,
    created_by: by,
    updated_by: by,
  };
  await queries.insertInto("volume_templates").values(row).execute();
  return row;
}

function countTemplates(queries: Queries, workspaceId: string): Promise<number> {
  return countRows(queries.selectFrom("volume_templates").where("workspace_id", "=", workspaceId));
}

function updateTemplate(queries: Queries, { workspaceId, name, draft, by }: Change): Promise<TemplateRow> {
  return queries
    .updateTable("volume_templates")
    .set({ ...toColumns(draft), updated_at: new Date().toISOString(), updated_by: by })
    .where("workspace_id", "=", workspaceId)
    .where("name", "=", name)
    .returningAll()
    .executeTakeFirstOrThrow();
}

async function findTemplate(queries: Queries, workspaceId: string, name: string): Promise<TemplateRecord | undefined> {
  const row = await queries
    .selectFrom("volume_templates")
    .selectAll()
    .where("workspace_id", "=", workspaceId)
    .where("name", "=", name)
    .executeTakeFirst();
  return row && { row, versions: await findVersions(queries, workspaceId, row.id) };
}

function findVersions(queries: Queries, workspaceId: string, templateId?: string): Promise<VersionRow[]> {
  const query = queries.selectFrom("volume_template_versions").selectAll().where("workspace_id", "=", workspaceId);
  return (templateId === undefined ? query : query.where("template_id", "=", templateId))
    .orderBy("created_at")
    .orderBy("version_id")
    .execute();
}

async function sumBytes(queries: Queries, workspaceId: string): Promise<number> {
  const { sum } = await queries
    .selectFrom("volume_template_versions")
    .select((select) => select.fn.sum<number | string | null>("content_size").as("sum"))
    .where("workspace_id", "=", workspaceId)
    .executeTakeFirstOrThrow();
  return Number(sum ?? 0);
}
