// The store as the rest of the control plane sees it: typed queries, prepared hot reads, and a flush before acknowledging.
import type { Kysely, Transaction } from "kysely";
import type { Tables } from "./tables.ts";

export type Value = string | number | null;

/** A synchronous query on committed data, prepared once; its text keeps to SQL that every supported database has. */
export type PreparedRead<Row> = {
  first(...values: Value[]): Row | undefined;
  all(...values: Value[]): Row[];
};

export type Database = AsyncDisposable & {
  readonly kysely: Kysely<Tables>;
  prepareRead<Row>(text: string): PreparedRead<Row>;
  /** Resolves once every commit made before the call survives a loss of power; a commit alone survives the process's death. */
  flush(): Promise<void>;
};

export type Queries = Kysely<Tables> | Transaction<Tables>;
