// SQLite as built into Node: one connection that Kysely writes through and one read-only connection for hot, synchronous reads,
// which therefore never see a transaction that is still open.
import { closeSync, fsyncSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { backup, DatabaseSync } from "node:sqlite";
import { Kysely, SqliteDialect } from "kysely";
import type { Database, PreparedRead, RememberedRead } from "./database.ts";
import { adaptForKysely } from "./kysely-adapter.ts";
import { LogSync } from "./log-sync.ts";
import { migrate } from "./migrate.ts";
import { rememberRows } from "./remembered-rows.ts";
import { translateFailure } from "./sqlite-errors.ts";
import type { Tables } from "./tables.ts";
import { createTransact, makeDurable } from "./transact.ts";

const busyTimeoutMs = 5_000;
const mappedMaxBytes = 2 ** 31;
/** Of a backup; other work goes on between. */
const pagesAtOnce = 1_000;

export async function openSqlite(path: string): Promise<Database> {
  await using opened = new AsyncDisposableStack();
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  closeSync(openSync(path, "a", 0o600));
  const writer = new DatabaseSync(path, { timeout: busyTimeoutMs, enableForeignKeyConstraints: true });
  opened.defer(() => writer.close());
  // What is deleted is overwritten; the log is synced by LogSync before anything is acknowledged.
  writer.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON");
  // Goes up after every change through the writing connection, commits included: what was read before may be outdated.
  let version = 0;
  const kysely = new Kysely<Tables>({
    dialect: new SqliteDialect({ database: adaptForKysely(writer, () => version++) }),
  });
  await migrate(kysely, "sqlite");
  const reader = opened.adopt(new DatabaseSync(path, { timeout: busyTimeoutMs, readOnly: true }), (it) => it.close());
  // Through the system's own memory of the file: among a million rows hardly a page is asked for twice, and copying each costs more
  // than the query.
  reader.exec(`PRAGMA mmap_size = ${mappedMaxBytes}`);
  const log = opened.use(new LogSync(`${path}-wal`));
  opened.defer(() => log.sync());
  // No commit waits for the disk here; `flush` does.
  const transact = createTransact(kysely);
  const flush = (): Promise<void> =>
    log.sync().catch((error: unknown) => {
      throw translateFailure(error);
    });
  const stack = opened.move();
  return {
    dialect: "sqlite",
    kysely,
    transact,
    transactDurably: makeDurable(transact, flush),
    transactUnflushed: transact,
    prepareRead<Row>(text: string): PreparedRead<Row> {
      const statement = reader.prepare(text);
      return {
        first: (...values) => statement.get(...values) as Row | undefined,
        all: (...values) => statement.all(...values) as Row[],
      };
    },
    prepareRememberedRead<Row>(text: string): RememberedRead<Row> {
      const statement = reader.prepare(text);
      return rememberRows(
        (values) => statement.get(...values) as Row | undefined,
        () => version,
      );
    },
    async copyTo(path) {
      closeSync(openSync(path, "wx", 0o600));
      await backup(reader, path, { rate: pagesAtOnce });
      syncPath(path);
    },
    flush,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

function syncPath(path: string): void {
  const file = openSync(path, "r");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
