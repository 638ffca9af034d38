// Every column that holds sealed texts, with what each text is bound to: changing the key walks this list, and a test compares it with the
// database.
import { secretOf } from "../integrations/record.ts";
import { payloadOf } from "../oauth/adapter.ts";
import { signingKeyOf } from "../oauth/signing-keys.ts";
import { tokenValueOf } from "../previews/token-value.ts";
import { envsOf } from "../sandboxes/environment.ts";
import { answerOf } from "../sandboxes/replays.ts";

export type SealedColumn = {
  table: string;
  column: string;
  /** The primary key, whose values are texts. */
  keys: readonly string[];
  recordIdOf: (row: Readonly<Record<string, string>>) => string;
};

export const sealedColumns: readonly SealedColumn[] = [
  { table: "sandboxes", column: "sealed_envs", keys: ["id"], recordIdOf: (row) => envsOf(row.id!) },
  {
    table: "idempotency_keys",
    column: "sealed_answer",
    keys: ["workspace_id", "principal_id", "key"],
    recordIdOf: (row) => answerOf({ workspaceId: row.workspace_id!, principalId: row.principal_id! }, row.key!),
  },
  {
    table: "integration_connections",
    column: "sealed_secret",
    keys: ["id"],
    recordIdOf: (row) => secretOf(row.id!),
  },
  {
    table: "oauth_signing_keys",
    column: "sealed_private_key",
    keys: ["id"],
    recordIdOf: (row) => signingKeyOf(row.id!),
  },
  {
    table: "oauth_records",
    column: "sealed_payload",
    keys: ["model", "id"],
    recordIdOf: (row) => payloadOf(row.model!, row.id!),
  },
  {
    table: "preview_tokens",
    column: "sealed_value",
    keys: ["preview_id", "name"],
    recordIdOf: (row) => tokenValueOf(row.preview_id!, row.name!),
  },
];
