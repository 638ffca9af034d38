// Programs that people may sign in to with the authorization code flow, registered by the operator.
export type OauthClientsTable = {
  id: string;
  name: string;
  /** Null for public clients, which can keep no secret. Hexadecimal SHA-256 of 256 random bits. */
  secret_hash: string | null;
  /** JSON array. */
  redirect_uris: string;
  created_at: string;
};
