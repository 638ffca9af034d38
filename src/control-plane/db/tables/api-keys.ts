// API keys that are accepted; a revoked one has no row. Only the SHA-256 of a key is kept. Keys have 256 random bits, so a slow hash would add nothing.
export type ApiKeysTable = {
  id: string;
  /** Where it acts when a request names no workspace; null when that workspace is gone. A service account's key acts nowhere else. */
  workspace_id: string | null;
  /** Exactly one of the two owners is set. */
  user_id: string | null;
  service_account_id: string | null;
  name: string;
  /** Hexadecimal. */
  token_hash: string;
  /** As it was asked for, e.g. `30d`. */
  expires_in: string | null;
  created_at: string;
  created_by: string | null;
  expires_at: string | null;
  /** JSON array of what it grants; null for everything its owner may do. */
  scopes: string | null;
  /** Written late and at most once in a while. */
  last_used_at: string | null;
};
