// Rows kept in memory until something is committed: a read transaction costs system calls for its locks, ten times the query itself.
import { BoundedMap } from "../../core/bounded-map.ts";
import type { RememberedRead, Value } from "./database.ts";

const rowsMax = 10_000;
/** Bounds how long a change by another process, an operator's `sqlite3` for example, goes unseen. */
const ttlMs = 1_000;

/** `version` changes with every commit of this process. */
export function rememberRows<Row>(
  read: (values: Value[]) => Row | undefined,
  version: () => number,
): RememberedRead<Row> {
  const rows = new BoundedMap<string, { row: Row | undefined; version: number; at: number }>(rowsMax);
  return {
    first(...values) {
      const key = values.join("\0");
      const now = Date.now();
      const kept = rows.get(key);
      if (kept !== undefined && kept.version === version() && now - kept.at < ttlMs) return kept.row;
      const row = read(values);
      rows.set(key, { row, version: version(), at: now });
      return row;
    },
  };
}
