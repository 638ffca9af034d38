// Queries about which workspace has used which image.
import type { Database } from "../db/database.ts";
import { lockWorkspace } from "../db/lock-workspace.ts";

export type ImageUse = { name: string; firstUsedAt: string; lastUsedAt: string };

export type ImageStore = ReturnType<typeof createImageStore>;

export function createImageStore(database: Database) {
  const ofWorkspace = database.prepareRead<{ name: string; first_used_at: string; last_used_at: string }>(
    "select name, first_used_at, last_used_at from workspace_images where workspace_id = ? order by name",
  );
  const anyUser = database.prepareRead<{ name: string }>("select name from workspace_images where name = ? limit 1");
  return {
    async list(workspaceId: string): Promise<ImageUse[]> {
      const rows = await ofWorkspace.all(workspaceId);
      return rows.map((row) => ({ name: row.name, firstUsedAt: row.first_used_at, lastUsedAt: row.last_used_at }));
    },
    /** A tenant can make up any number of names for one image: those used longest ago are forgotten. */
    async note(workspaceId: string, name: string, max: number): Promise<void> {
      const now = new Date().toISOString();
      // What becomes of the sandbox is durable after it and before anything is acknowledged.
      await database.transactUnflushed(async (queries) => {
        const updated = await queries
          .updateTable("workspace_images")
          .set({ last_used_at: now })
          .where("workspace_id", "=", workspaceId)
          .where("name", "=", name)
          .returning("name")
          .executeTakeFirst();
        if (updated !== undefined) return;
        await lockWorkspace(queries, workspaceId);
        await queries
          .insertInto("workspace_images")
          .values({ workspace_id: workspaceId, name, first_used_at: now, last_used_at: now })
          .onConflict((conflict) => conflict.doNothing())
          .execute();
        const surplus = await queries
          .selectFrom("workspace_images")
          .select("name")
          .where("workspace_id", "=", workspaceId)
          .orderBy("last_used_at", "desc")
          .orderBy("name")
          .offset(max)
          .limit(100)
          .execute();
        for (const row of surplus) {
          await queries
            .deleteFrom("workspace_images")
            .where("workspace_id", "=", workspaceId)
            .where("name", "=", row.name)
            .execute();
        }
      });
    },
    async forget(workspaceId: string, name: string): Promise<void> {
      await database.kysely
        .deleteFrom("workspace_images")
        .where("workspace_id", "=", workspaceId)
        .where("name", "=", name)
        .execute();
      await database.flush();
    },
    async hasUser(name: string): Promise<boolean> {
      return (await anyUser.first(name)) !== undefined;
    },
  };
}
