// How many sandboxes a workspace has in a status; triggers keep it so with every change of `sandboxes`, whoever makes it.
import type { SandboxStatus } from "../../../contract/sandbox-status.ts";

export type SandboxCountsTable = {
  workspace_id: string;
  status: SandboxStatus;
  /** A count is the sum of its shards: on PostgreSQL, transactions of one workspace would otherwise wait for each other. */
  shard: number;
  count: number;
};
