// A preview: an address at which one port of a sandbox is reached. It belongs to the sandbox's record, and so outlives a rebuild.
export type PreviewsTable = {
  id: string;
  workspace_id: string;
  sandbox_id: string;
  name: string;
  /** Goes up with every change. */
  revision: number;
  /** What its address is found by; one in the whole installation. */
  label: string;
  display_name: string | null;
  port: number;
  /** 1: without a token. */
  is_public: number;
  /** JSON object: prefixUrl, expires and ttl as they were given, requestHeaders, responseHeaders. */
  spec: string;
  /** The earlier one of both. From then on it does not exist. */
  expires_at: string | null;
  /** JSON array, oldest first. */
  events: string;
  created_at: string;
  updated_at: string;
  created_by: string;
  updated_by: string;
};
