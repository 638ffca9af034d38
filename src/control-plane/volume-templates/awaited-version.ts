// Awaiting an archive: which version an upload URL is for, whether there may be one, and what became of the version's earlier attempts.
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import type { Queries } from "../db/database.ts";
import type { TemplateRecord, TemplateRow, VersionRow } from "./record.ts";

export type AwaitedVersion = {
  /** Undefined: the platform numbers it. */
  name: string | undefined;
  bucket: string;
  until: string;
  /** Of the template. */
  versionsMax: number;
};

export async function awaitVersion(
  queries: Queries,
  { row: template, versions }: TemplateRecord,
  wanted: AwaitedVersion,
): Promise<{ awaited: VersionRow; versionsNumbered: number }> {
  const { name, versionsNumbered } = chooseName(template, versions, wanted.name);
  const found = versions.find((version) => version.name === name);
  if (found?.status === "READY") {
    throw new AppError("conflict", `The version ${name} has its archive, which never changes; upload another version.`);
  }
  if (found !== undefined) return { awaited: await awaitAgain(queries, found, wanted), versionsNumbered };
  if (versions.length >= wanted.versionsMax) {
    const message = `The volume template has ${wanted.versionsMax} versions, which is the limit.`;
    throw new AppError("forbidden", message, { details: { error: "quota_exceeded" } });
  }
  const awaited: VersionRow = {
    workspace_id: template.workspace_id,
    template_id: template.id,
    name,
    version_id: randomToken(16),
    numbered: wanted.name === undefined ? 1 : 0,
    status: "CREATED",
    message: null,
    bucket: wanted.bucket,
    object_key: null,
    content_size: 0,
    created_at: new Date().toISOString(),
    uploaded_at: null,
    awaited_until: wanted.until,
  };
  await queries.insertInto("volume_template_versions").values(awaited).execute();
  if (versionsNumbered !== template.versions_numbered) {
    await queries
      .updateTable("volume_templates")
      .set({ versions_numbered: versionsNumbered })
      .where("id", "=", template.id)
      .execute();
  }
  return { awaited, versionsNumbered };
}

/** Asked again without a name, the newest version is meant for as long as it has no archive: a client refreshes its URL so. */
function chooseName(
  { versions_numbered }: TemplateRow,
  versions: readonly VersionRow[],
  given: string | undefined,
): { name: string; versionsNumbered: number } {
  if (given !== undefined) return { name: given, versionsNumbered: versions_numbered };
  const unfinished = versions.findLast(({ numbered, status }) => numbered === 1 && status !== "READY");
  if (unfinished !== undefined) return { name: unfinished.name, versionsNumbered: versions_numbered };
  const taken = new Set(versions.map(({ name }) => name));
  let number = versions_numbered + 1;
  while (taken.has(`v${number}`)) number++;
  return { name: `v${number}`, versionsNumbered: number };
}

/** URLs of an upload that was refused are of no use any more; those of one that has not come yet stay good until they expire. */
function awaitAgain(queries: Queries, found: VersionRow, { bucket, until }: AwaitedVersion): Promise<VersionRow> {
  const stays = found.status === "CREATED" && found.bucket === bucket;
  return queries
    .updateTable("volume_template_versions")
    .set({
      status: "CREATED",
      message: null,
      bucket,
      awaited_until: until,
      ...(!stays && { version_id: randomToken(16) }),
    })
    .where("version_id", "=", found.version_id)
    .returningAll()
    .executeTakeFirstOrThrow();
}
