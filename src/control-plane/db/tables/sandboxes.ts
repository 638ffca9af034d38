// A sandbox record. Environment values live only in `sealed_envs`; `spec` is the rest of the specification as JSON.
import type { SandboxStatus } from "../../../contract/sandbox-status.ts";

export type SandboxesTable = {
  /** The id of its instance, chosen before the host is asked. */
  id: string;
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
};
