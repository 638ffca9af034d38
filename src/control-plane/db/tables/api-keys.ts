// API keys: only the SHA-256 of a key is kept. Keys have 256 random bits, so a slow hash would add nothing.
export type ApiKeysTable = {
  id: string;
  workspace_id: string;
  user_id: string;
  name: string;
  /** Hexadecimal. */
  token_hash: string;
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
};
