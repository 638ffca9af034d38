// Tells that a row was refused because another has its place, whichever database says so.
import { DatabaseError } from "pg";

/** SQLite's extended result codes for a unique index and for a primary key. */
const sqliteCodes: readonly unknown[] = [2067, 1555];

export function isUniqueViolation(error: unknown): boolean {
  if (error instanceof DatabaseError) return error.code === "23505";
  return sqliteCodes.includes((error as { errcode?: unknown } | null)?.errcode);
}
