// Images that a workspace has made sandboxes from: what others have pulled is not its business.
export type WorkspaceImagesTable = {
  workspace_id: string;
  /** Complete, as the host calls it. */
  name: string;
  first_used_at: string;
  last_used_at: string;
};
