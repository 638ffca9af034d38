// The store as the rest of the control plane sees it: typed queries, prepared hot reads, and a flush before acknowledging.
import type { Kysely, Transaction } from "kysely";
import type { Eventual } from "../../core/eventual.ts";
import type { Tables } from "./tables.ts";
import type { Transact } from "./transact.ts";

export type Value = string | number | null;

/**
 * A query on committed data, prepared once; its text keeps to SQL that every supported database has, with `?` for values. It answers at once
 * where the database is in this process, and later where it is a server: always `await` it, or `proceed`.
 */
export type PreparedRead<Row> = {
  first(...values: Value[]): Eventual<Row | undefined>;
  all(...values: Value[]): Eventual<Row[]>;
};

/** The same for questions asked again and again: the row is kept until something is committed, and must not be changed. */
export type RememberedRead<Row> = { first(...values: Value[]): Eventual<Readonly<Row> | undefined> };

export type Database = AsyncDisposable & {
  readonly dialect: "sqlite" | "postgres";
  readonly kysely: Kysely<Tables>;
  /** A transaction that begins again, a bounded number of times, when it could not go on beside another. */
  readonly transact: Transact;
  /** The same, and what it committed survives a loss of power when it resolves. */
  readonly transactDurably: Transact;
  /**
   * The same as `transact`, without waiting for the disk: a loss of power may undo what it committed until a later transaction is durable. For what
   * such a later one completes before anything is acknowledged.
   */
  readonly transactUnflushed: Transact;
  prepareRead<Row>(text: string): PreparedRead<Row>;
  /** For small rows: up to ten thousand of them are kept. */
  prepareRememberedRead<Row>(text: string): RememberedRead<Row>;
  /** Writes a copy as of one moment into a new file, readable by its owner only; undefined where a server keeps the data. */
  readonly copyTo: ((path: string) => Promise<void>) | undefined;
  /** Resolves once every commit made before the call survives a loss of power; a commit alone survives the process's death. */
  flush(): Promise<void>;
};

export type Queries = Kysely<Tables> | Transaction<Tables>;
