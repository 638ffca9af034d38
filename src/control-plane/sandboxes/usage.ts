// What the sandboxes of a workspace take up, counted in the transactions that change it, so that no number of callers at once gets past
// a limit. The row of a sandbox is always written before the row of its workspace: transactions wait for each other in one order.
import { AppError } from "../../core/errors.ts";
import type { Queries } from "../db/database.ts";

export type Usage = { sandboxes: number; memoryMb: number };

/** The most of each that a workspace may have. */
export type UsageLimits = Usage;

/** Takes it, or throws `QUOTA_EXCEEDED` and so undoes the transaction. */
export async function takeUsage(
  queries: Queries,
  workspaceId: string,
  { sandboxes, memoryMb }: Usage,
  limits: UsageLimits,
): Promise<void> {
  await ensureRow(queries, workspaceId);
  let update = queries
    .updateTable("workspace_usage")
    .set((set) => ({
      sandboxes: set("sandboxes", "+", sandboxes),
      memory_mb: set("memory_mb", "+", memoryMb),
    }))
    .where("workspace_id", "=", workspaceId)
    .where("memory_mb", "<=", limits.memoryMb - memoryMb);
  // A limit that was lowered below what is there is in the way of more, not of what is there.
  if (sandboxes > 0) update = update.where("sandboxes", "<=", limits.sandboxes - sandboxes);
  const taken = await update.returning("workspace_id").executeTakeFirst();
  if (taken === undefined) throw exceeded(await read(queries, workspaceId), { sandboxes, memoryMb }, limits);
}

/** Adds or gives back what needs no permission. */
export async function adjustUsage(
  queries: Queries,
  workspaceId: string,
  { sandboxes, memoryMb }: Usage,
): Promise<void> {
  if (sandboxes === 0 && memoryMb === 0) return;
  await ensureRow(queries, workspaceId);
  await queries
    .updateTable("workspace_usage")
    .set((set) => ({
      sandboxes: set("sandboxes", "+", sandboxes),
      memory_mb: set("memory_mb", "+", memoryMb),
    }))
    .where("workspace_id", "=", workspaceId)
    .execute();
}

/** More than any limit: nothing fits in beside it. */
const closed = 2_000_000_000;

/** Whether the workspace had no sandboxes; then none can be created in it any more, also by requests that are under way. */
export async function closeUsage(queries: Queries, workspaceId: string): Promise<boolean> {
  await ensureRow(queries, workspaceId);
  const row = await queries
    .updateTable("workspace_usage")
    .set({ sandboxes: closed })
    .where("workspace_id", "=", workspaceId)
    .where("sandboxes", "<=", 0)
    .returning("workspace_id")
    .executeTakeFirst();
  return row !== undefined;
}

export async function countSandboxes(queries: Queries, workspaceId: string): Promise<number> {
  const row = await queries
    .selectFrom("workspace_usage")
    .select("sandboxes")
    .where("workspace_id", "=", workspaceId)
    .executeTakeFirst();
  return row?.sandboxes ?? 0;
}

async function ensureRow(queries: Queries, workspaceId: string): Promise<void> {
  await queries
    .insertInto("workspace_usage")
    .values({ workspace_id: workspaceId, sandboxes: 0, memory_mb: 0 })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

async function read(queries: Queries, workspaceId: string): Promise<Usage> {
  const row = await queries
    .selectFrom("workspace_usage")
    .select(["sandboxes", "memory_mb"])
    .where("workspace_id", "=", workspaceId)
    .executeTakeFirstOrThrow();
  return { sandboxes: row.sandboxes, memoryMb: Number(row.memory_mb) };
}

function exceeded(used: Usage, wanted: Usage, limits: UsageLimits): AppError {
  const isCount = wanted.sandboxes > 0 && used.sandboxes + wanted.sandboxes > limits.sandboxes;
  const resourceType = isCount ? "sandboxes" : "memory";
  const message = isCount
    ? `The workspace has ${used.sandboxes} of at most ${limits.sandboxes} sandboxes.`
    : `The workspace uses ${used.memoryMb} of at most ${limits.memoryMb} MB of memory; ${wanted.memoryMb} MB more do not fit.`;
  return new AppError("invalid_request", message, { details: { code: "QUOTA_EXCEEDED", resourceType } });
}
