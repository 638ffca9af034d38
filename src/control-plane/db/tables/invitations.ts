// An open invitation of a person, by email, into a workspace.
export type InvitationsTable = {
  workspace_id: string;
  /** In lower case. */
  email: string;
  role: "admin" | "member";
  /** Id of the principal who invites. */
  invited_by: string;
  created_by: string;
  created_at: string;
  updated_at: string;
  expires_at: string;
};
