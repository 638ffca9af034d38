// What the sandboxes of a workspace that hold a name take up, kept in the transactions that change it.
export type WorkspaceUsageTable = { workspace_id: string; sandboxes: number; memory_mb: number };
