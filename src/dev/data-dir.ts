// The directory that everything is kept in: made at the first start, and refused with a reason when nothing could be kept there.
import { accessSync, constants, mkdirSync } from "node:fs";
import { AppError } from "../core/errors.ts";

const reasons: Readonly<Record<string, string>> = {
  EEXIST: "it is not a directory",
  ENOTDIR: "something above it is not a directory",
  EACCES: "this user may not write there; the platform runs as root",
  EPERM: "this user may not write there; the platform runs as root",
  EROFS: "its file system is read-only",
  ENOSPC: "its disk is full",
};

export function makeDataDir(dataDir: string): void {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o711 });
    accessSync(dataDir, constants.W_OK | constants.X_OK);
  } catch (error) {
    const reason = reasons[(error as NodeJS.ErrnoException).code ?? ""] ?? (error as Error).message;
    const message = `The data directory ${dataDir} cannot be used: ${reason}. Choose another with --data-dir or CATNAP_DATA_DIR.`;
    throw new AppError("invalid_request", message, { cause: error });
  }
}
