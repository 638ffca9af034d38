// What the OAuth server remembers: sessions, interactions, codes, refresh tokens, grants and revocations, each until it expires.
export type OauthRecordsTable = {
  /** Kind of record, e.g. `RefreshToken`. */
  model: string;
  /** SHA-256 of the code, token or id: what is stored can be presented to nobody. */
  id: string;
  /** Hash of the grant it was issued under; the grant's end is its end. */
  grant_id: string | null;
  /** Hash. */
  uid: string | null;
  /** Keyed fingerprint, since people can type these codes and so could guess them. */
  user_code: string | null;
  /** The user or service account it is about. */
  subject_id: string | null;
  client_id: string | null;
  sealed_payload: string;
  consumed_at: string | null;
  expires_at: string;
};
