// A person who can be a member of workspaces.
export type UsersTable = {
  id: string;
  /** Shown as `createdBy`. */
  name: string;
  created_at: string;
  /** In lower case; null for a person who never signs in with a password. */
  email: string | null;
  given_name: string | null;
  family_name: string | null;
  /** See users/password.ts. */
  password_hash: string | null;
  /** Since when no credential of the person is accepted. */
  disabled_at: string | null;
  updated_at: string | null;
};
