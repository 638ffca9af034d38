// A token that opens one private preview: checked by its hash, shown again from its sealed value.
export type PreviewTokensTable = {
  workspace_id: string;
  preview_id: string;
  name: string;
  /** Hexadecimal SHA-256. */
  token_hash: string;
  /** Null: made when values were not kept. */
  sealed_value: string | null;
  expires_at: string | null;
  created_at: string;
  created_by: string;
};
