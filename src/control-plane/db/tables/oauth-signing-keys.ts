// Keys that sign access tokens: the newest active one signs, older ones are published until their last token has expired.
export type OauthSigningKeysTable = {
  /** The `kid` in tokens. */
  id: string;
  /** JSON Web Key. */
  public_key: string;
  sealed_private_key: string;
  created_at: string;
  /** It is published at once and signs from here on, so that nobody meets a token before its key. */
  active_at: string;
};
