// Limits that the operator gave a workspace instead of the installation's.
export type WorkspaceQuotasTable = { workspace_id: string; resource_type: string; value: number; updated_at: string };
