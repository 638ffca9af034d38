// The directory that everything is kept in: made at the first start, and refused with a reason when nothing could be kept there.
import { accessSync, constants, existsSync, mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { AppError } from "../core/errors.ts";

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "no directory can be made there",
  EEXIST: "it is not a directory",
  ENOTDIR: "something above it is not a directory",
  EACCES: "this user may not write there; the platform runs as root",
  EPERM: "this user may not write there; the platform runs as root",
  EROFS: "its file system is read-only",
  ENOSPC: "its disk is full",
};

export function makeDataDir(dataDir: string): void {
  try {
    makeMissing(dataDir);
    accessSync(dataDir, constants.W_OK | constants.X_OK);
  } catch (error) {
    const reason = reasons[(error as NodeJS.ErrnoException).code ?? ""] ?? (error as Error).message;
    const message = `The data directory ${dataDir} cannot be used: ${reason}. Choose another with --data-dir or CATNAP_DATA_DIR.`;
    throw new AppError("invalid_request", message, { cause: error });
  }
}

/** One by one: Node's `recursive` tries for ever in a file system that takes no directories, such as /proc. */
function makeMissing(dir: string): void {
  try {
    mkdirSync(dir, { mode: 0o711 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST" && statSync(dir).isDirectory()) return;
    if (code !== "ENOENT" || existsSync(dirname(dir))) throw error;
    makeMissing(dirname(dir));
    mkdirSync(dir, { mode: 0o711 });
  }
}
