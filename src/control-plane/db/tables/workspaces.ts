// A workspace: the tenant that every other row belongs to.
export type WorkspacesTable = {
  /** At most 9 of `[a-z0-9]`: part of host-form sandbox addresses. */
  id: string;
  name: string;
  created_at: string;
  display_name: string | null;
  /** JSON object. */
  labels: string | null;
  /** JSON object, kept for clients that send it. */
  runtime: string | null;
  /** Null until it is first changed. */
  updated_at: string | null;
  /** Null for the first workspace, which nobody asked for. */
  created_by: string | null;
  updated_by: string | null;
};
