// PostgreSQL as the store: Kysely and prepared reads on pools of their own, so that reads never wait behind transactions for a lock.
import {
  CompiledQuery,
  type DatabaseConnection,
  type PostgresPool as DialectPool,
  type Driver,
  Kysely,
  PostgresDialect,
  type PostgresDialectConfig,
  PostgresDriver,
} from "kysely";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { Database, PreparedRead, RememberedRead, Value } from "./database.ts";
import { migrate } from "./migrate.ts";
import { holdDatabase } from "./postgres-hold.ts";
import { describePlace, openPool, type PostgresPool, requirePostgresUrl } from "./postgres-pool.ts";
import { rememberRows } from "./remembered-rows.ts";
import type { Tables } from "./tables.ts";
import { createTransact } from "./transact.ts";

const writersMax = 10;
const readersMax = 6;
const versionMin = 130_000;

export type PostgresOptions = {
  url: string;
  /** Takes the database for this process alone. */
  isExclusive: boolean;
  log: Logger;
};

export async function openPostgres({ url, isExclusive, log }: PostgresOptions): Promise<Database> {
  requirePostgresUrl(url);
  await using opened = new AsyncDisposableStack();
  const hold = await reach(url, async () => {
    const held = isExclusive ? opened.use(await holdDatabase({ url, log })) : undefined;
    await prepareServer(url, log);
    return held;
  });
  // Goes up after every change of this process, commits included: what was read before may be outdated.
  let version = 0;
  const common = {
    url,
    requireUsable: () => hold?.requireHeld(),
    onIdleFailure: (err: unknown) => log.warn({ err }, "a connection to the database has ended"),
  };
  const readers = openPool({ ...common, connectionsMax: readersMax });
  opened.defer(() => readers.end());
  const writers = openPool({ ...common, connectionsMax: writersMax, onChange: () => version++ });
  const kysely = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: writers as unknown as DialectPool }) });
  opened.defer(() => kysely.destroy());
  const unflushed = new Kysely<Tables>({ dialect: new UnflushedDialect({ pool: writers as unknown as DialectPool }) });
  // A commit is acknowledged when it is durable; see makeDurable of the pool.
  const transact = createTransact(kysely);
  const stack = opened.move();
  return {
    dialect: "postgres",
    kysely,
    transact,
    transactDurably: transact,
    transactUnflushed: createTransact(unflushed),
    prepareRead<Row>(text: string): PreparedRead<Row> {
      const read = prepare<Row>(readers, text);
      return { first: async (...values) => (await read(values))[0], all: (...values) => read(values) };
    },
    prepareRememberedRead<Row>(text: string): RememberedRead<Row> {
      const read = prepare<Row>(readers, text);
      return rememberRows(
        async (values) => (await read(values))[0],
        () => version,
      );
    },
    copyTo: undefined,
    flush: async () => undefined,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Commits without waiting for the disk. The log is written in order: the next commit that waits makes these durable too. */
class UnflushedDialect extends PostgresDialect {
  readonly #config: PostgresDialectConfig;

  constructor(config: PostgresDialectConfig) {
    super(config);
    this.#config = config;
  }

  override createDriver(): Driver {
    return new UnflushedDriver(this.#config);
  }
}

class UnflushedDriver extends PostgresDriver {
  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    // Both in one round trip.
    await connection.executeQuery(CompiledQuery.raw("begin; set local synchronous_commit to off"));
  }
}

/** Whoever starts the platform has to be told which database was meant, and where that is set. */
async function reach<Result>(url: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof AppError && error.code !== "unavailable") throw error;
    const cause = error instanceof AppError ? error.cause : error;
    throw new AppError(
      "unavailable",
      `The database that CATNAP_DATABASE_URL names, at ${describePlace(url)}, cannot be used.`,
      {
        cause,
        details: { setting: "CATNAP_DATABASE_URL" },
      },
    );
  }
}

/** Checks the server and brings the schema up to date. */
async function prepareServer(url: string, log: Logger): Promise<void> {
  const pool = openPool({ url, connectionsMax: 3, isPatient: true });
  const kysely = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: pool as unknown as DialectPool }) });
  try {
    const client = await pool.connect();
    try {
      const asked = `select current_setting('server_version_num')::integer as version,
        current_setting('server_encoding') as encoding, current_setting('fsync') as fsync`;
      const [server] = (await client.query(asked)).rows as { version: number; encoding: string; fsync: string }[];
      if (server === undefined || server.version < versionMin)
        throw unsuitable(url, "PostgreSQL 13 or newer is needed");
      if (server.encoding !== "UTF8") throw unsuitable(url, "its encoding must be UTF8");
      if (server.fsync === "off") log.warn("the database server runs with fsync off: a loss of power loses data");
    } finally {
      client.release();
    }
    await migrate(kysely, "postgres");
  } finally {
    await kysely.destroy();
  }
}

function unsuitable(url: string, rule: string): AppError {
  return new AppError("invalid_request", `The database at ${describePlace(url)} cannot be used: ${rule}.`);
}

let preparedCount = 0;

/** Named, so that each connection plans it once. */
function prepare<Row>(pool: PostgresPool, text: string): (values: Value[]) => Promise<Row[]> {
  const name = `read-${preparedCount++}`;
  let count = 0;
  const numbered = text.replaceAll("?", () => `$${++count}`);
  return async (values) => {
    const client = await pool.connect();
    try {
      return (await client.query({ name, text: numbered, values })).rows as Row[];
    } finally {
      client.release();
    }
  };
}
