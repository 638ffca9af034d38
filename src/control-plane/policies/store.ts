// Queries about policies.
import type { PolicySpec } from "../../contract/policy.ts";
import { countRows } from "../db/count-rows.ts";
import type { Database } from "../db/database.ts";
import { lockWorkspace } from "../db/lock-workspace.ts";
import type { PoliciesTable } from "../db/tables/policies.ts";

export type PolicyRecord = {
  id: string;
  workspaceId: string;
  name: string;
  displayName: string | undefined;
  externalId: string | undefined;
  labels: Record<string, string> | undefined;
  spec: PolicySpec;
  createdAt: string;
  updatedAt: string;
  createdBy: string;
  updatedBy: string;
};

export type PolicyStore = ReturnType<typeof createPolicyStore>;

export function createPolicyStore(database: Database) {
  const ofWorkspace = database.prepareRead<PoliciesTable>(
    "select * from policies where workspace_id = ? order by name",
  );
  const specs = database.prepareRead<{ name: string; spec: string }>(
    "select name, spec from policies where workspace_id = ? order by name",
  );
  const one = database.prepareRead<PoliciesTable>("select * from policies where workspace_id = ? and name = ?");
  return {
    ...createCoverage(database),
    async list(workspaceId: string): Promise<PolicyRecord[]> {
      return (await ofWorkspace.all(workspaceId)).map(fromRow);
    },
    async listSpecs(workspaceId: string): Promise<{ name: string; spec: PolicySpec }[]> {
      const rows = await specs.all(workspaceId);
      return rows.map(({ name, spec }) => ({ name, spec: JSON.parse(spec) as PolicySpec }));
    },
    async find(workspaceId: string, name: string): Promise<PolicyRecord | undefined> {
      const row = await one.first(workspaceId, name);
      return row && fromRow(row);
    },
    async insert(record: PolicyRecord, max: number): Promise<"inserted" | "taken" | "full"> {
      return database.transactDurably(async (queries) => {
        await lockWorkspace(queries, record.workspaceId);
        const present = queries.selectFrom("policies").where("workspace_id", "=", record.workspaceId);
        if ((await countRows(present)) >= max) return "full";
        const inserted = await queries
          .insertInto("policies")
          .values(toRow(record))
          .onConflict((conflict) => conflict.doNothing())
          .returning("id")
          .executeTakeFirst();
        return inserted === undefined ? "taken" : "inserted";
      });
    },
    /** Whether there was one to replace. */
    async replace(record: PolicyRecord): Promise<boolean> {
      const { id, workspace_id, name, created_at, created_by, ...changes } = toRow(record);
      const row = await database.kysely
        .updateTable("policies")
        .set(changes)
        .where("workspace_id", "=", workspace_id)
        .where("name", "=", name)
        .where("id", "=", id)
        .returning("id")
        .executeTakeFirst();
      await database.flush();
      return row !== undefined;
    },
    async remove(workspaceId: string, name: string): Promise<PolicyRecord | undefined> {
      const row = await database.kysely
        .deleteFrom("policies")
        .where("workspace_id", "=", workspaceId)
        .where("name", "=", name)
        .returningAll()
        .executeTakeFirst();
      await database.flush();
      return row && fromRow(row);
    },
  };
}

/** What policies apply to: every sandbox that holds a name. */
function createCoverage(database: Database) {
  const sandboxes = database.prepareRead<{ name: string }>(
    "select name from sandboxes where workspace_id = ? and holds_name = 1 order by name limit 1000",
  );
  const usage = database.prepareRead<{ sandboxes: number }>(
    "select sandboxes from workspace_usage where workspace_id = ?",
  );
  return {
    async sandboxNames(workspaceId: string): Promise<string[]> {
      return (await sandboxes.all(workspaceId)).map(({ name }) => name);
    },
    async countSandboxes(workspaceId: string): Promise<number> {
      return (await usage.first(workspaceId))?.sandboxes ?? 0;
    },
  };
}

function toRow(record: PolicyRecord): PoliciesTable {
  return {
    workspace_id: record.workspaceId,
    name: record.name,
    id: record.id,
    display_name: record.displayName ?? null,
    external_id: record.externalId ?? null,
    labels: record.labels === undefined ? null : JSON.stringify(record.labels),
    spec: JSON.stringify(record.spec),
    created_at: record.createdAt,
    updated_at: record.updatedAt,
    created_by: record.createdBy,
    updated_by: record.updatedBy,
  };
}

function fromRow(row: PoliciesTable): PolicyRecord {
  return {
    id: row.id,
    workspaceId: row.workspace_id,
    name: row.name,
    displayName: row.display_name ?? undefined,
    externalId: row.external_id ?? undefined,
    labels: row.labels === null ? undefined : (JSON.parse(row.labels) as Record<string, string>),
    spec: JSON.parse(row.spec) as PolicySpec,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    createdBy: row.created_by,
    updatedBy: row.updated_by,
  };
}
