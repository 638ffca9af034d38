// A token that opens one private preview; only its hash is kept.
export type PreviewTokensTable = {
  workspace_id: string;
  preview_id: string;
  name: string;
  /** Hexadecimal SHA-256. */
  token_hash: string;
  expires_at: string | null;
  created_at: string;
  created_by: string;
};
