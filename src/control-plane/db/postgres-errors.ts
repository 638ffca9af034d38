// What a failure of PostgreSQL means to a caller: an outage is `unavailable`, never an internal error; nothing of the URL gets out.
import { DatabaseError } from "pg";
import { AppError } from "../../core/errors.ts";

/** Two transactions that cannot both go on: the one that got this may begin again. */
const repeatable = new Set(["40001", "40P01"]);

/** Whole classes and single states in which the server, not the statement, is at fault. */
const outages = /^(08|53|57|58|F0|XX|25006|25P03|28|3D000|55P03|40001|40P01)/;

const diskFull = "53100";
/** Text that PostgreSQL cannot keep: NUL, or half of a surrogate pair. */
const unstorableText = new Set(["22021", "22P05"]);

export function isRepeatable(error: unknown): boolean {
  const cause = error instanceof AppError ? error.cause : error;
  return cause instanceof DatabaseError && cause.code !== undefined && repeatable.has(cause.code);
}

/** An AppError where the failure is no fault of the statement; anything else as it is. */
export function translateFailure(error: unknown): unknown {
  if (error instanceof AppError) return error;
  if (!(error instanceof DatabaseError)) return unavailable("The database cannot be reached.", withoutClient(error));
  const { code = "" } = error;
  if (unstorableText.has(code)) {
    return new AppError("invalid_request", "Text must not contain the character U+0000.", { cause: error });
  }
  if (code === diskFull) {
    return new AppError("unavailable", "The disk of the database is full.", {
      cause: error,
      details: { code: "STORAGE_FULL" },
    });
  }
  return outages.test(code) ? unavailable("The database is not available.", error) : error;
}

/** Whether the connection may be used again. */
export function isConnectionSound(error: unknown): boolean {
  return error instanceof DatabaseError && !/^(08|57P)/.test(error.code ?? "");
}

/** The client hangs its connection on some errors, which has no place in a log. */
function withoutClient(error: unknown): Error {
  const { message, code } = (error ?? {}) as { message?: string; code?: unknown };
  // A name that stands for several addresses fails with a code and without a word.
  return Object.assign(new Error(message || String(code ?? "unknown")), typeof code === "string" && { code });
}

function unavailable(message: string, cause: unknown): AppError {
  return new AppError("unavailable", message, { cause });
}
