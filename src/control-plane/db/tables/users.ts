// A person who can be a member of workspaces.
export type UsersTable = {
  id: string;
  /** Shown as `createdBy`. */
  name: string;
  created_at: string;
};
