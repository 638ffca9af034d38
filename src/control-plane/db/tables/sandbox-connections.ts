// Which integration connections the environment of a sandbox refers to.
export type SandboxConnectionsTable = { workspace_id: string; connection_name: string; sandbox_id: string };
