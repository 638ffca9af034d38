// What is asked of the records to bring them into agreement with the host: by instance, by count and by time, never all of them.
import type { SandboxStatus } from "../../contract/sandbox-status.ts";
import type { Database } from "../db/database.ts";
import type { OwnedInstances } from "./store.ts";

const chunk = 500;

export type Owner = OwnedInstances & { status: SandboxStatus };

export type AgreementStore = ReturnType<typeof createAgreementStore>;

export function createAgreementStore(database: Database) {
  const { kysely } = database;
  const deployed = database.prepareRead<{ count: number | null }>(
    "select sum(count) as count from sandbox_counts where status = 'DEPLOYED'",
  );
  return {
    /** The sandboxes, not terminated ones, that these instances serve. */
    async *findOwners(instanceIds: readonly string[]): AsyncGenerator<Owner[]> {
      for (let start = 0; start < instanceIds.length; start += chunk) {
        const rows = await kysely
          .selectFrom("sandboxes")
          .select(["id", "instance_id", "next_instance_id", "status"])
          .where("instance_id", "in", instanceIds.slice(start, start + chunk))
          .where("status", "<>", "TERMINATED")
          .execute();
        yield rows.map(({ id, instance_id: instanceId, next_instance_id: next, status }) => {
          return { id, instanceId, nextInstanceId: next ?? undefined, status };
        });
      }
    },

    countDeployed: async (): Promise<number> => (await deployed.first())?.count ?? 0,

    /** Removes records of terminated sandboxes that have been kept long enough, a chunk of them; how many it were. */
    async forget(now: string): Promise<number> {
      const due = kysely
        .selectFrom("sandboxes")
        .select("id")
        .where("forget_at", "<=", now)
        .where("status", "=", "TERMINATED")
        .orderBy("forget_at")
        .orderBy("id")
        .limit(chunk);
      const ids = (await due.execute()).map(({ id }) => id);
      if (ids.length === 0) return 0;
      await kysely.deleteFrom("sandboxes").where("id", "in", ids).where("status", "=", "TERMINATED").execute();
      await database.flush();
      return ids.length;
    },
  };
}
