// Lets changes to what a workspace may have only so many of come one after the other, on every database.
import { AppError } from "../../core/errors.ts";
import type { Queries } from "./database.ts";

/** Until the transaction ends; throws `not_found` when the workspace is gone. */
export async function lockWorkspace(queries: Queries, workspaceId: string): Promise<void> {
  const found = await queries
    .updateTable("workspaces")
    .set((set) => ({ name: set.ref("name") }))
    .where("id", "=", workspaceId)
    .where("deleted_at", "is", null)
    .returning("id")
    .executeTakeFirst();
  if (found === undefined) throw new AppError("not_found", "There is no such workspace.");
}
