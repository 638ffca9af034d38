// Queries about the limits that the operator gave single workspaces.
import type { Database } from "../db/database.ts";
import { lockWorkspace } from "../db/lock-workspace.ts";

export type QuotaStore = ReturnType<typeof createQuotaStore>;

export function createQuotaStore(database: Database) {
  const { kysely } = database;
  const overrides = database.prepareRead<{ resource_type: string; value: number | string }>(
    "select resource_type, value from workspace_quotas where workspace_id = ?",
  );
  return {
    async findOverrides(workspaceId: string): Promise<Record<string, number>> {
      const rows = await overrides.all(workspaceId);
      return Object.fromEntries(rows.map(({ resource_type, value }) => [resource_type, Number(value)]));
    },

    async set(workspaceId: string, resourceType: string, value: number): Promise<void> {
      const updated_at = new Date().toISOString();
      await database.transactDurably(async (queries) => {
        await lockWorkspace(queries, workspaceId);
        await queries
          .insertInto("workspace_quotas")
          .values({ workspace_id: workspaceId, resource_type: resourceType, value, updated_at })
          .onConflict((conflict) =>
            conflict.columns(["workspace_id", "resource_type"]).doUpdateSet({ value, updated_at }),
          )
          .execute();
      });
    },

    async remove(workspaceId: string, resourceType: string): Promise<void> {
      await kysely
        .deleteFrom("workspace_quotas")
        .where("workspace_id", "=", workspaceId)
        .where("resource_type", "=", resourceType)
        .execute();
      await database.flush();
    },
  };
}
