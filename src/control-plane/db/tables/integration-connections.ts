// An integration connection. Secret values live only in `sealed_secret`; their keys are no secret.
export type IntegrationConnectionsTable = {
  id: string;
  workspace_id: string;
  name: string;
  /** Goes up with every change. */
  revision: number;
  display_name: string | null;
  external_id: string | null;
  /** JSON object, or null. */
  labels: string | null;
  /** The kind of service; null for a plain store of credentials. */
  integration: string | null;
  /** Whether the credentials are for tests; null when it was not said. */
  sandbox: number | null;
  /** JSON object of texts. */
  config: string | null;
  /** JSON array. */
  secret_keys: string | null;
  sealed_secret: string | null;
  created_at: string;
  updated_at: string;
  created_by: string;
  updated_by: string;
};
