// Rows kept in memory until something is committed: a read transaction costs ten times the query itself, a server another round trip.
import { BoundedMap } from "../../core/bounded-map.ts";
import { type Eventual, proceed } from "../../core/eventual.ts";
import type { RememberedRead, Value } from "./database.ts";

const rowsMax = 10_000;
/** Bounds how long a change by another process, an operator's `sqlite3` for example, goes unseen. */
const ttlMs = 1_000;

/** `version` changes with every commit of this process, before the commit is acknowledged. */
export function rememberRows<Row>(
  read: (values: Value[]) => Eventual<Row | undefined>,
  version: () => number,
): RememberedRead<Row> {
  const rows = new BoundedMap<string, { row: Row | undefined; version: number; at: number }>(rowsMax);
  return {
    first(...values) {
      const key = values.join("\0");
      const at = Date.now();
      // Before the read: one that began before a commit may not have seen it, however late it ends.
      const before = version();
      const kept = rows.get(key);
      if (kept !== undefined && kept.version === before && at - kept.at < ttlMs) return kept.row;
      const remember = (row: Row | undefined): Row | undefined => {
        if (version() === before) rows.set(key, { row, version: before, at });
        return row;
      };
      return proceed(read(values), remember);
    },
  };
}
