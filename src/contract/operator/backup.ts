// Copies of the database that the operator takes while the platform runs.
import Type, { type Static } from "typebox";
import { endpoint } from "../endpoint.ts";

export const BackupRequest = Type.Object({
  /** Of a file that does not exist yet, on the platform's machine. */
  path: Type.String({ minLength: 2, maxLength: 4096, pattern: "^/[^\\0]*$" }),
});

export const Backup = Type.Object({
  path: Type.String(),
  bytes: Type.Integer(),
  /** The sealing key without which the copy cannot be used; see `getSealKey`. */
  keyId: Type.String(),
});
export type Backup = Static<typeof Backup>;

export const createBackup = endpoint({
  method: "POST",
  path: "/backups",
  summary: "Copy the database into a file",
  tag: "operator",
  scope: "admin",
  body: BackupRequest,
  response: Backup,
  errors: [400, 409, 503],
});
