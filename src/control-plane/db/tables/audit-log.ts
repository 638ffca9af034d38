// One row for each change that was asked for and for some refusals; no row ever changes.
export type AuditLogTable = {
  /** Begins with the time in milliseconds: the order of ids is the order of time. */
  id: string;
  at: string;
  /** Null where an operation is about no workspace, or it was refused before one was chosen. */
  workspace_id: string | null;
  workspace: string | null;
  /** Null when nobody was recognised. */
  principal_id: string | null;
  principal_name: string | null;
  principal_kind: string | null;
  credential_id: string | null;
  operation: string;
  resource: string | null;
  status: number;
  error: string | null;
  address: string | null;
  request_id: string;
};
