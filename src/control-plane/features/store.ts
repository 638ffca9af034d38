// Queries about what the operator has set for features.
import type { FeatureSetting } from "../../contract/operator/features.ts";
import { countRows } from "../db/count-rows.ts";
import type { Database } from "../db/database.ts";
import { lockWorkspace } from "../db/lock-workspace.ts";
import type { FeaturesTable } from "../db/tables/features.ts";

export type StoredFeature = { name: string; setting: FeatureSetting };

export type FeatureStore = ReturnType<typeof createFeatureStore>;

export function createFeatureStore(database: Database) {
  const ofWorkspace = database.prepareRead<FeaturesTable>(
    "select * from features where workspace_id = ? order by name",
  );
  const one = database.prepareRead<FeaturesTable>("select * from features where workspace_id = ? and name = ?");
  return {
    async list(workspaceId: string): Promise<StoredFeature[]> {
      return (await ofWorkspace.all(workspaceId)).map((row) => ({ name: row.name, setting: toSetting(row) }));
    },
    async find(workspaceId: string, name: string): Promise<FeatureSetting | undefined> {
      const row = await one.first(workspaceId, name);
      return row && toSetting(row);
    },
    /** False when the workspace has `max` others already. */
    async set(workspaceId: string, name: string, setting: FeatureSetting, max: number): Promise<boolean> {
      const values = {
        enabled: setting.enabled ? 1 : 0,
        variant: setting.variant ?? null,
        payload: setting.payload === undefined ? null : JSON.stringify(setting.payload),
        updated_at: new Date().toISOString(),
      };
      return database.transactDurably(async (queries) => {
        await lockWorkspace(queries, workspaceId);
        const others = queries.selectFrom("features").where("workspace_id", "=", workspaceId).where("name", "!=", name);
        if ((await countRows(others)) >= max) return false;
        await queries
          .insertInto("features")
          .values({ workspace_id: workspaceId, name, ...values })
          .onConflict((conflict) => conflict.columns(["workspace_id", "name"]).doUpdateSet(values))
          .execute();
        return true;
      });
    },
    /** What was set, or undefined when nothing was. */
    async remove(workspaceId: string, name: string): Promise<FeatureSetting | undefined> {
      const row = await database.kysely
        .deleteFrom("features")
        .where("workspace_id", "=", workspaceId)
        .where("name", "=", name)
        .returningAll()
        .executeTakeFirst();
      await database.flush();
      return row && toSetting(row);
    },
  };
}

function toSetting({ enabled, variant, payload }: FeaturesTable): FeatureSetting {
  return {
    enabled: enabled === 1,
    ...(variant !== null && { variant }),
    ...(payload !== null && { payload: JSON.parse(payload) as Record<string, unknown> }),
  };
}
