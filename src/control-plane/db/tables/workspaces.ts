// A workspace: the tenant that every other row belongs to.
export type WorkspacesTable = {
  /** At most 9 of `[a-z0-9]`: part of host-form sandbox addresses. */
  id: string;
  name: string;
  created_at: string;
  display_name: string | null;
  /** JSON object. */
  labels: string | null;
  /** Null until it is first changed. */
  updated_at: string | null;
  /** Null for the first workspace, which nobody asked for. */
  created_by: string | null;
  updated_by: string | null;
  /** A deleted workspace keeps its row for the records that name it; its name is free and it has no members. */
  deleted_at: string | null;
};
