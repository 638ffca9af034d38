// What the sandboxes of a workspace take up, counted in the transactions that change it, so that no number of callers at once gets past
// a limit. The row of a sandbox is always written before the row of its workspace: transactions wait for each other in one order.
import { AppError } from "../../core/errors.ts";
import type { Queries } from "../db/database.ts";

export type Usage = { sandboxes: number; memoryMb: number };

/** The most of each that a workspace may have. */
export type UsageLimits = Usage;

/** Takes it, or throws `QUOTA_EXCEEDED` and so undoes the transaction. One statement: others wait for the row until the commit. */
export async function takeUsage(
  queries: Queries,
  workspaceId: string,
  wanted: Usage,
  limits: UsageLimits,
): Promise<void> {
  const { sandboxes, memoryMb } = wanted;
  // A limit that was lowered below what is there is in the way of more, not of what is there.
  const othersMax = sandboxes > 0 ? limits.sandboxes - sandboxes : closed;
  const othersMaxMb = limits.memoryMb - memoryMb;
  const fits = othersMax >= 0 && othersMaxMb >= 0;
  const taken = fits && (await add(queries, workspaceId, wanted, { othersMax, othersMaxMb }));
  if (!taken) throw exceeded(await read(queries, workspaceId), wanted, limits);
}

/** Adds or gives back what needs no permission. */
export async function adjustUsage(queries: Queries, workspaceId: string, change: Usage): Promise<void> {
  if (change.sandboxes === 0 && change.memoryMb === 0) return;
  await add(queries, workspaceId, change, undefined);
}

/** Whether it was added: with bounds, only to a usage within them. */
async function add(
  queries: Queries,
  workspaceId: string,
  { sandboxes, memoryMb }: Usage,
  bounds: { othersMax: number; othersMaxMb: number } | undefined,
): Promise<boolean> {
  const row = await queries
    .insertInto("workspace_usage")
    .values({ workspace_id: workspaceId, sandboxes, memory_mb: memoryMb })
    .onConflict((conflict) => {
      const update = conflict.column("workspace_id").doUpdateSet((set) => ({
        sandboxes: set("workspace_usage.sandboxes", "+", set.ref("excluded.sandboxes")),
        memory_mb: set("workspace_usage.memory_mb", "+", set.ref("excluded.memory_mb")),
      }));
      if (bounds === undefined) return update;
      return update
        .where("workspace_usage.sandboxes", "<=", bounds.othersMax)
        .where("workspace_usage.memory_mb", "<=", bounds.othersMaxMb);
    })
    .returning("workspace_id")
    .executeTakeFirst();
  return row !== undefined;
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
    .executeTakeFirst();
  return { sandboxes: row?.sandboxes ?? 0, memoryMb: Number(row?.memory_mb ?? 0) };
}

function exceeded(used: Usage, wanted: Usage, limits: UsageLimits): AppError {
  const isCount = wanted.sandboxes > 0 && used.sandboxes + wanted.sandboxes > limits.sandboxes;
  const resourceType = isCount ? "sandboxes" : "memory";
  const message = isCount
    ? `The workspace has ${used.sandboxes} of at most ${limits.sandboxes} sandboxes.`
    : `The workspace uses ${used.memoryMb} of at most ${limits.memoryMb} MB of memory; ${wanted.memoryMb} MB more do not fit.`;
  return new AppError("invalid_request", message, { details: { code: "QUOTA_EXCEEDED", resourceType } });
}
