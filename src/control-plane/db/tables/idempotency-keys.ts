// Requests that carry an Idempotency-Key, with the answer to repeat once there is one.
export type IdempotencyKeysTable = {
  workspace_id: string;
  principal_id: string;
  key: string;
  /** Keyed fingerprint of the request, since a body may hold secrets. */
  fingerprint: string;
  sandbox_id: string;
  /** Null until the request has succeeded. */
  sealed_answer: string | null;
  created_at: string;
  expires_at: string;
};
