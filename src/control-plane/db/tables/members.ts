// Who belongs to which workspace, and as what.
export type MembersTable = {
  workspace_id: string;
  user_id: string;
  role: "admin" | "member";
  created_at: string;
};
