// Takes copies of the database while it is in use: each is complete, as of one moment, or is not there.
import { linkSync, rmSync, statSync } from "node:fs";
import { dirname } from "node:path";
import type { Backup } from "../../contract/operator/backup.ts";
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import type { SealKey } from "../../core/seal.ts";
import type { Database } from "../db/database.ts";

export type BackupsOptions = { database: Database; sealKey: SealKey };

export function createBackups({ database, sealKey }: BackupsOptions) {
  return {
    async create(path: string): Promise<Backup> {
      const { copyTo } = database;
      if (copyTo === undefined) {
        throw new AppError(
          "invalid_request",
          "The records are on PostgreSQL: copy them with pg_dump, or as the server's operator does.",
        );
      }
      if (statSync(dirname(path), { throwIfNoEntry: false })?.isDirectory() !== true) {
        throw new AppError("invalid_request", "path must be in a directory that exists");
      }
      // Never a half copy under the name, and never over another file.
      const temporary = `${path}.${randomToken(8)}.part`;
      try {
        await copyTo(temporary);
        linkSync(temporary, path);
      } catch (error) {
        throw explain(error);
      } finally {
        rmSync(temporary, { force: true });
      }
      return { path, bytes: statSync(path).size, keyId: sealKey.id };
    },
  };
}

function explain(error: unknown): unknown {
  const { code } = (error ?? {}) as { code?: unknown };
  if (code === "EEXIST") return new AppError("already_exists", "There is a file at the path already.");
  if (code === "ENOSPC") return new AppError("unavailable", "The disk is full.", { cause: error });
  return error;
}
