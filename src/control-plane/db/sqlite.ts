// SQLite as built into Node: one connection that Kysely writes through and one read-only connection for hot, synchronous reads.
import { closeSync, fdatasync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { promisify } from "node:util";
import { Kysely, type SqliteDatabase, SqliteDialect } from "kysely";
import { BoundedMap } from "../../core/bounded-map.ts";
import type { Database, PreparedRead } from "./database.ts";
import { migrate } from "./migrate.ts";
import type { Tables } from "./tables.ts";

const busyTimeoutMs = 5_000;
const preparedMax = 200;
const syncFile = promisify(fdatasync);

/** What Kysely's SQLite driver needs, on Node's own binding; statements are prepared once per text. */
function adaptForKysely(database: DatabaseSync): SqliteDatabase {
  const prepared = new BoundedMap<string, { statement: StatementSync; reader: boolean }>(preparedMax);
  return {
    close: () => database.close(),
    prepare(text) {
      let entry = prepared.get(text);
      if (entry === undefined) {
        const statement = database.prepare(text);
        entry = { statement, reader: statement.columns().length > 0 };
        prepared.set(text, entry);
      }
      const { statement, reader } = entry;
      return {
        reader,
        all: (values) => statement.all(...(values as SQLInputValue[])),
        run: (values) => statement.run(...(values as SQLInputValue[])),
        iterate: (values) => statement.iterate(...(values as SQLInputValue[])) as IterableIterator<unknown>,
      };
    },
  };
}

/**
 * Makes commits durable without holding up the process: the log is synced by a worker thread, once for all commits that
 * wait for it. (SQLite's own `synchronous = FULL` syncs on the main thread, where sleeping sandboxes are woken, too.)
 */
class LogSync implements Disposable {
  readonly #file: number;
  #next: Promise<void> | undefined;
  #current: Promise<unknown> = Promise.resolve();

  constructor(logPath: string) {
    this.#file = openSync(logPath, "r");
  }

  /** Resolves once everything committed before this call is on disk. */
  sync(): Promise<void> {
    this.#next ??= this.#current
      .catch(() => undefined)
      .then(() => {
        this.#next = undefined;
        const syncing = syncFile(this.#file);
        this.#current = syncing;
        return syncing;
      });
    return this.#next;
  }

  [Symbol.dispose](): void {
    closeSync(this.#file);
  }
}

export async function openSqlite(path: string): Promise<Database> {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  closeSync(openSync(path, "a", 0o600));
  const writer = new DatabaseSync(path, { timeout: busyTimeoutMs, enableForeignKeyConstraints: true });
  writer.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON");
  const kysely = new Kysely<Tables>({ dialect: new SqliteDialect({ database: adaptForKysely(writer) }) });
  await migrate(kysely);
  const reader = new DatabaseSync(path, { timeout: busyTimeoutMs, readOnly: true });
  const log = new LogSync(`${path}-wal`);
  return {
    kysely,
    prepareRead<Row>(text: string): PreparedRead<Row> {
      const statement = reader.prepare(text);
      return {
        first: (...values) => statement.get(...values) as Row | undefined,
        all: (...values) => statement.all(...values) as Row[],
      };
    },
    flush: () => log.sync(),
    async [Symbol.asyncDispose]() {
      await log.sync();
      log[Symbol.dispose]();
      reader.close();
      await kysely.destroy();
    },
  };
}
