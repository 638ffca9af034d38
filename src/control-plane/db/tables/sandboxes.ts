// A sandbox record. Environment values live only in `sealed_envs`; `spec` is the rest of the specification as JSON.
import type { SandboxStatus } from "../../../contract/sandbox-status.ts";

export type SandboxesTable = {
  id: string;
  /** The instance that serves it, chosen before the host is asked. */
  instance_id: string;
  /** While it is being rebuilt: the instance that will. */
  next_instance_id: string | null;
  /** What counts against the workspace's quota; during a rebuild the larger of both sizes. */
  memory_mb: number;
  workspace_id: string;
  name: string;
  /** Goes up with every change. */
  revision: number;
  status: SandboxStatus;
  /** 1 while no other sandbox may have the name; a partial unique index enforces it. */
  holds_name: number;
  display_name: string | null;
  external_id: string | null;
  /** JSON object, or null. */
  labels: string | null;
  /** Display name and labels as lists search in them; null when there are neither. */
  search_text: string | null;
  spec: string;
  sealed_envs: string | null;
  enabled: number;
  /** JSON array of failures recorded by the control plane, oldest first; or null. */
  errors: string | null;
  /** ISO 8601 in UTC with milliseconds, so that text order is time order; the same for every `_at`. */
  created_at: string;
  updated_at: string;
  created_by: string;
  updated_by: string;
  terminated_at: string | null;
  /** How long the record is kept after its termination. */
  retention_ms: number;
  /** When both have passed. */
  forget_at: string | null;
};
