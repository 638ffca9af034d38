// The operator's operation on backups, mounted.
import type { FastifyInstance } from "fastify";
import { implement } from "../../contract/implement.ts";
import { createBackup } from "../../contract/operator/backup.ts";
import { type BackupsOptions, createBackups } from "./service.ts";

export function mountBackups(app: FastifyInstance, options: BackupsOptions): void {
  const backups = createBackups(options);
  implement(app, createBackup, ({ body }) => backups.create(body.path));
}
