// The two transactions of a creation: it is recorded before the host is asked, and completed with its answer afterwards.
import type { CoreEvent } from "../../contract/metadata.ts";
import { AppError } from "../../core/errors.ts";
import type { Database, Queries } from "../db/database.ts";
import { fromEventRow, fromRow, type SandboxRecord, toRow } from "./record.ts";
import { appendEvent, changeStatus } from "./store.ts";
import { takeUsage, type UsageLimits } from "./usage.ts";

export type KeyedRequest = {
  principalId: string;
  key: string;
  fingerprint: string;
  expiresAt: string;
};

export type EarlierRequest = { fingerprint: string; sandboxId: string; sealedAnswer: string | null };

export type InsertOutcome =
  /** `replaced`: a failed sandbox of the name is being deleted for it. */
  { kind: "inserted"; replaced: boolean } | { kind: "name_taken" } | { kind: "key_taken"; earlier: EarlierRequest };

export type InsertTerms = {
  keyed: KeyedRequest | undefined;
  /** That its environment refers to. */
  connections: readonly string[];
  limits: UsageLimits;
};

export type CreationStore = ReturnType<typeof createCreationStore>;

export function createCreationStore(database: Database) {
  const earlier = database.prepareRead<{ fingerprint: string; sandbox_id: string; sealed_answer: string | null }>(
    `select fingerprint, sandbox_id, sealed_answer from idempotency_keys
      where workspace_id = ? and principal_id = ? and key = ? and expires_at > ?`,
  );
  return {
    async findEarlier(workspaceId: string, principalId: string, key: string): Promise<EarlierRequest | undefined> {
      const row = await earlier.first(workspaceId, principalId, key, new Date().toISOString());
      return row && { fingerprint: row.fingerprint, sandboxId: row.sandbox_id, sealedAnswer: row.sealed_answer };
    },

    /**
     * Records the sandbox and, with a key, that the key stands for it. Throws `QUOTA_EXCEEDED`, and then nothing is recorded. A loss
     * of power before `complete` may undo it: then there is an instance without a record, which is deleted.
     */
    insert(record: SandboxRecord, terms: InsertTerms): Promise<InsertOutcome> {
      return database.transactUnflushed((queries) => insert(queries, record, terms));
    },

    /**
     * Makes the sandbox DEPLOYED and keeps the answer for the key. Undefined when it no longer is DEPLOYING. Resolves when
     * all of it would survive a loss of power.
     */
    async complete<Answer>(
      id: string,
      answerWith: (record: SandboxRecord, events: CoreEvent[]) => Answer,
      seal: ((answer: Answer) => string) | undefined,
    ): Promise<Answer | undefined> {
      return database.transactDurably(async (queries) => {
        if (!(await changeStatus(queries, id, { from: ["DEPLOYING"], to: "DEPLOYED" }))) return undefined;
        const row = await queries.selectFrom("sandboxes").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
        const events = await queries
          .selectFrom("sandbox_events")
          .select(["time", "type", "status", "message"])
          .where("sandbox_id", "=", id)
          .orderBy("seq")
          .execute();
        const answer = answerWith(fromRow(row), events.map(fromEventRow));
        if (seal !== undefined) {
          await queries
            .updateTable("idempotency_keys")
            .set({ sealed_answer: seal(answer) })
            .where("sandbox_id", "=", id)
            .execute();
        }
        return answer;
      });
    },

    async removeExpiredKeys(now: string): Promise<void> {
      await database.kysely.deleteFrom("idempotency_keys").where("expires_at", "<=", now).execute();
    },
  };
}

async function insert(
  queries: Queries,
  record: SandboxRecord,
  { keyed, connections, limits }: InsertTerms,
): Promise<InsertOutcome> {
  const taken = keyed && (await takeKey(queries, record, keyed));
  if (taken !== undefined) return { kind: "key_taken", earlier: taken };
  const inserted = await queries
    .insertInto("sandboxes")
    .values(toRow(record))
    .onConflict((conflict) => conflict.doNothing())
    .returning("id")
    .executeTakeFirst();
  if (inserted === undefined) {
    await queries.deleteFrom("idempotency_keys").where("sandbox_id", "=", record.id).execute();
    return { kind: "name_taken" };
  }
  // After the name is taken: whoever still held it has failed by then, and none that fails later can have held it.
  const replaced = await replaceFailed(queries, record);
  const { id, workspaceId, revision, createdAt: time, status, spec } = record;
  await addConnections(queries, { id, workspaceId }, connections);
  await appendEvent(queries, id, { revision, time, status });
  // Last: other creations of the workspace wait for its row until this transaction ends.
  await takeUsage(queries, workspaceId, { sandboxes: 1, memoryMb: spec.runtime?.memory ?? 0 }, limits);
  return { kind: "inserted", replaced };
}

const keyAttemptsMax = 3;

/** Undefined when the key now stands for this request, else the request it stands for already. */
async function takeKey(
  queries: Queries,
  record: SandboxRecord,
  keyed: KeyedRequest,
): Promise<EarlierRequest | undefined> {
  const key = { workspace_id: record.workspaceId, principal_id: keyed.principalId, key: keyed.key };
  for (let attempt = 1; attempt <= keyAttemptsMax; attempt++) {
    const ofKey = queries.deleteFrom("idempotency_keys").where((where) => where.and(key));
    await ofKey.where("expires_at", "<=", record.createdAt).execute();
    const taken = await queries
      .insertInto("idempotency_keys")
      .values({
        ...key,
        fingerprint: keyed.fingerprint,
        sandbox_id: record.id,
        sealed_answer: null,
        created_at: record.createdAt,
        expires_at: keyed.expiresAt,
      })
      .onConflict((conflict) => conflict.doNothing())
      .returning("key")
      .executeTakeFirst();
    if (taken !== undefined) return undefined;
    const row = await queries
      .selectFrom("idempotency_keys")
      .select(["fingerprint", "sandbox_id", "sealed_answer"])
      .where((where) => where.and(key))
      .executeTakeFirst();
    // Without a row, the request it stood for has ended without an answer since.
    if (row !== undefined) {
      return { fingerprint: row.fingerprint, sandboxId: row.sandbox_id, sealedAnswer: row.sealed_answer };
    }
  }
  throw new AppError("conflict", "The Idempotency-Key is in use by other requests.");
}

export async function replaceConnections(
  queries: Queries,
  { id, workspaceId }: Pick<SandboxRecord, "id" | "workspaceId">,
  connections: readonly string[],
): Promise<void> {
  await queries.deleteFrom("sandbox_connections").where("sandbox_id", "=", id).execute();
  await addConnections(queries, { id, workspaceId }, connections);
}

async function addConnections(
  queries: Queries,
  { id, workspaceId }: Pick<SandboxRecord, "id" | "workspaceId">,
  connections: readonly string[],
): Promise<void> {
  if (connections.length === 0) return;
  const rows = connections.map((name) => ({ workspace_id: workspaceId, connection_name: name, sandbox_id: id }));
  await queries.insertInto("sandbox_connections").values(rows).execute();
}

/** A failed sandbox does not hold its name: creating the name again deletes what is left of it. */
async function replaceFailed(queries: Queries, { workspaceId, name, createdBy }: SandboxRecord): Promise<boolean> {
  const failed = await queries
    .selectFrom("sandboxes")
    .select("id")
    .where("workspace_id", "=", workspaceId)
    .where("name", "=", name)
    .where("status", "=", "FAILED")
    .orderBy("id")
    .execute();
  for (const { id } of failed) {
    await changeStatus(queries, id, {
      from: ["FAILED"],
      to: "DELETING",
      by: createdBy,
      message: "A new sandbox takes the name",
    });
  }
  return failed.length > 0;
}
