// Policies of a workspace.
export type PoliciesTable = {
  workspace_id: string;
  name: string;
  id: string;
  display_name: string | null;
  external_id: string | null;
  /** JSON object, or null. */
  labels: string | null;
  /** JSON: type, resource types and locations. */
  spec: string;
  created_at: string;
  updated_at: string;
  created_by: string;
  updated_by: string;
};
