// A program that acts in one workspace: its id is the OAuth client id, its secret is kept as SHA-256.
export type ServiceAccountsTable = {
  id: string;
  workspace_id: string;
  name: string;
  description: string;
  role: "admin" | "member";
  /** Hexadecimal; the secret has 256 random bits. */
  secret_hash: string;
  created_at: string;
  updated_at: string;
  created_by: string;
  updated_by: string;
};
