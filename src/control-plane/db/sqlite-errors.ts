// What a failure of SQLite means to a caller: a disk that is full or broken is `unavailable`, and nothing has changed then.
import { isDiskFull } from "../../core/disk-full.ts";
import { AppError } from "../../core/errors.ts";

const full = 13;
/** Low byte of the extended codes: the database is locked by another process, or its file cannot be read or written. */
const outages = [5, 10, 14];

export function translateFailure(error: unknown): unknown {
  const { errcode, code } = (error ?? {}) as { errcode?: unknown; code?: unknown };
  if (errcode === full || isDiskFull(error)) {
    return new AppError("unavailable", "The disk of the database is full.", {
      cause: error,
      details: { code: "STORAGE_FULL" },
    });
  }
  const isOutage = typeof errcode === "number" && outages.includes(errcode & 0xff);
  if (!isOutage && code !== "EIO") return error;
  return new AppError("unavailable", "The database is not available.", { cause: error });
}
