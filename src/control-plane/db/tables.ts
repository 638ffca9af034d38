// All tables by name, for typed queries. SQL stays within what SQLite and PostgreSQL share; JSON is text, booleans are integers.
import type { ApiKeysTable } from "./tables/api-keys.ts";
import type { FeaturesTable } from "./tables/features.ts";
import type { IdempotencyKeysTable } from "./tables/idempotency-keys.ts";
import type { InstallationTable } from "./tables/installation.ts";
import type { IntegrationConnectionsTable } from "./tables/integration-connections.ts";
import type { InvitationsTable } from "./tables/invitations.ts";
import type { MembersTable } from "./tables/members.ts";
import type { SandboxConnectionsTable } from "./tables/sandbox-connections.ts";
import type { SandboxEventsTable } from "./tables/sandbox-events.ts";
import type { SandboxesTable } from "./tables/sandboxes.ts";
import type { ServiceAccountsTable } from "./tables/service-accounts.ts";
import type { UsersTable } from "./tables/users.ts";
import type { VolumeTemplateVersionsTable } from "./tables/volume-template-versions.ts";
import type { VolumeTemplatesTable } from "./tables/volume-templates.ts";
import type { WorkspaceQuotasTable } from "./tables/workspace-quotas.ts";
import type { WorkspaceUsageTable } from "./tables/workspace-usage.ts";
import type { WorkspacesTable } from "./tables/workspaces.ts";

export type Tables = {
  installation: InstallationTable;
  workspaces: WorkspacesTable;
  users: UsersTable;
  members: MembersTable;
  invitations: InvitationsTable;
  service_accounts: ServiceAccountsTable;
  api_keys: ApiKeysTable;
  sandboxes: SandboxesTable;
  sandbox_events: SandboxEventsTable;
  sandbox_connections: SandboxConnectionsTable;
  workspace_usage: WorkspaceUsageTable;
  workspace_quotas: WorkspaceQuotasTable;
  idempotency_keys: IdempotencyKeysTable;
  integration_connections: IntegrationConnectionsTable;
  volume_templates: VolumeTemplatesTable;
  volume_template_versions: VolumeTemplateVersionsTable;
  features: FeaturesTable;
};
