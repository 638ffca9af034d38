// Queries about previews. Whatever has expired, or belongs to a sandbox that gave its name up, is in nobody's way.
import { type RawBuilder, sql } from "kysely";
import { sessionPort } from "../../contract/preview.ts";
import { AppError } from "../../core/errors.ts";
import { countRows } from "../db/count-rows.ts";
import type { Database, Queries } from "../db/database.ts";
import { lockWorkspace } from "../db/lock-workspace.ts";
import { isUniqueViolation } from "../db/unique-violation.ts";
import { fromRow, type PreviewRecord, toRow } from "./record.ts";

export type PreviewStore = ReturnType<typeof createPreviewStore>;

export const previewsPerSandboxMax = 1_000;
const goneAtOnce = 500;

export function createPreviewStore(database: Database) {
  return { ...createReads(database), ...createChanges(database) };
}

function createReads({ kysely }: Database) {
  const ofSandbox = (sandboxId: string) =>
    kysely
      .selectFrom("previews")
      .selectAll()
      .where("sandbox_id", "=", sandboxId)
      .where((where) =>
        where.or([where("expires_at", "is", null), where("expires_at", ">", new Date().toISOString())]),
      );
  return {
    async find(sandboxId: string, name: string): Promise<PreviewRecord | undefined> {
      const row = await ofSandbox(sandboxId).where("name", "=", name).executeTakeFirst();
      return row && fromRow(row);
    },

    /** Newest first. */
    async list(sandboxId: string): Promise<PreviewRecord[]> {
      return (await ofSandbox(sandboxId).orderBy("created_at", "desc").orderBy("name").execute()).map(fromRow);
    },
  };
}

/** Each resolves when its change would survive a loss of power. */
function createChanges(database: Database) {
  const { kysely } = database;
  return {
    /** `replacing`: previews of the workspace that have the name or the address make room. */
    insert: (record: PreviewRecord, replacing: boolean): Promise<void> =>
      database.transactDurably((queries) => insert(queries, record, replacing)),

    /** Whether it still had the revision before this one, and so was replaced. */
    async replace(record: PreviewRecord): Promise<boolean> {
      try {
        return await database.transactDurably(async (queries) => {
          await lockWorkspace(queries, record.workspaceId);
          await removeGone(queries, record);
          if (record.port === sessionPort) await requireNoVisitors(queries, record.id);
          const replaced = await queries
            .updateTable("previews")
            .set(toRow(record))
            .where("workspace_id", "=", record.workspaceId)
            .where("id", "=", record.id)
            .where("revision", "=", record.revision - 1)
            .returning("id")
            .executeTakeFirst();
          return replaced !== undefined;
        });
      } catch (error) {
        if (isUniqueViolation(error)) throw prefixTaken();
        throw error;
      }
    },

    /** Whether it was there. Its tokens go with it. */
    async remove(workspaceId: string, id: string): Promise<boolean> {
      const removed = await kysely
        .deleteFrom("previews")
        .where("workspace_id", "=", workspaceId)
        .where("id", "=", id)
        .returning("id")
        .executeTakeFirst();
      if (removed !== undefined) await database.flush();
      return removed !== undefined;
    },

    /** Removes a portion of what is gone; resolves to whether there may be more. */
    async purge(): Promise<boolean> {
      const gone = kysely.selectFrom("previews").select("id").where(isGone()).limit(goneAtOnce);
      const removed = await kysely.deleteFrom("previews").where("id", "in", gone).returning("id").execute();
      return removed.length === goneAtOnce;
    },
  };
}

function isGone(): RawBuilder<boolean> {
  return sql<boolean>`(expires_at <= ${new Date().toISOString()}
    or sandbox_id in (select id from sandboxes where holds_name = 0))`;
}

/** Who was given a token to look at a server must not come to run programs with it. */
async function requireNoVisitors(queries: Queries, id: string): Promise<void> {
  const token = await queries
    .selectFrom("preview_tokens")
    .innerJoin("previews", "previews.id", "preview_tokens.preview_id")
    .select("preview_tokens.name")
    .where("previews.id", "=", id)
    .where("previews.port", "<>", sessionPort)
    .where((where) =>
      where.or([
        where("preview_tokens.expires_at", "is", null),
        where("preview_tokens.expires_at", ">", new Date().toISOString()),
      ]),
    )
    .limit(1)
    .executeTakeFirst();
  if (token === undefined) return;
  throw new AppError(
    "conflict",
    `spec.port must not become ${sessionPort} while the preview has tokens: they would open the sandbox API. Revoke them first.`,
  );
}

async function removeGone(queries: Queries, { label, sandboxId, name }: PreviewRecord): Promise<void> {
  await queries
    .deleteFrom("previews")
    .where(isGone())
    .where((where) => where.or([where("label", "=", label), where.and({ sandbox_id: sandboxId, name })]))
    .execute();
}

async function insert(queries: Queries, record: PreviewRecord, replacing: boolean): Promise<void> {
  const { workspaceId, sandboxId, name, label } = record;
  await lockWorkspace(queries, workspaceId);
  await removeGone(queries, record);
  const owner = queries.selectFrom("sandboxes").select("id").where("id", "=", sandboxId).where("holds_name", "=", 1);
  if ((await owner.executeTakeFirst()) === undefined) {
    throw new AppError("not_found", "There is no sandbox of this name.");
  }
  if (replacing) {
    await queries
      .deleteFrom("previews")
      .where("workspace_id", "=", workspaceId)
      .where((where) => where.or([where("label", "=", label), where.and({ sandbox_id: sandboxId, name })]))
      .execute();
  }
  const present = queries.selectFrom("previews").where("sandbox_id", "=", sandboxId);
  if ((await countRows(present)) >= previewsPerSandboxMax) {
    throw new AppError("invalid_request", `A sandbox has at most ${previewsPerSandboxMax} previews.`, {
      details: { error: "quota_exceeded" },
    });
  }
  const inserted = await queries
    .insertInto("previews")
    .values(toRow(record))
    .onConflict((conflict) => conflict.doNothing())
    .returning("id")
    .executeTakeFirst();
  if (inserted !== undefined) return;
  const namesake = queries
    .selectFrom("previews")
    .select("id")
    .where("sandbox_id", "=", sandboxId)
    .where("name", "=", name);
  if ((await namesake.executeTakeFirst()) === undefined) throw prefixTaken();
  throw new AppError("already_exists", "A preview of this name exists already.");
}

function prefixTaken(): AppError {
  return new AppError("already_exists", "Another preview of the workspace has this spec.prefixUrl; force replaces it.");
}
