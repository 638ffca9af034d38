// What is in a workspace, by table: what goes with it, and what stays and why. Both together are every table that names a workspace.
import { sql } from "kysely";
import type { Queries } from "../db/database.ts";
import type { Tables } from "../db/tables.ts";

type OfWorkspace = { [Name in keyof Tables]: "workspace_id" extends keyof Tables[Name] ? Name : never }[keyof Tables];

/** What refers to another comes before it. */
export const goesWithWorkspace = [
  "invitations",
  "members",
  "service_accounts",
  "integration_connections",
  "policies",
  "features",
  "workspace_quotas",
  "workspace_images",
  "volume_template_versions",
  "volume_templates",
  "preview_tokens",
  "previews",
  "sandbox_connections",
  "idempotency_keys",
] as const satisfies readonly OfWorkspace[];

export const staysAfterWorkspace: Readonly<Record<Exclude<OfWorkspace, (typeof goesWithWorkspace)[number]>, string>> = {
  audit_log: "tells what was done in it, for as long as entries are kept",
  sandboxes: "those that are being deleted still have an instance; terminated ones are forgotten after their retention",
  sandbox_counts: "counts those",
  workspace_usage: "closed: whoever is creating a sandbox at this moment must not get past it",
  api_keys:
    "a person's keys are good elsewhere and lose their home here; those of service accounts go with the accounts",
};

export async function emptyWorkspace(queries: Queries, workspaceId: string): Promise<void> {
  for (const table of goesWithWorkspace) {
    await sql`delete from ${sql.table(table)} where workspace_id = ${workspaceId}`.execute(queries);
  }
  await queries.updateTable("api_keys").set({ workspace_id: null }).where("workspace_id", "=", workspaceId).execute();
}
