// A workspace: the tenant that every other row belongs to.
export type WorkspacesTable = {
  /** At most 9 of `[a-z0-9]`: part of host-form sandbox addresses. */
  id: string;
  name: string;
  created_at: string;
};
