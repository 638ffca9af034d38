// Connections to PostgreSQL: bounded in number and in time, durable on commit, with failures in the platform's words.
import pg from "pg";
import { AppError } from "../../core/errors.ts";
import { invalidSetting } from "../../core/settings.ts";
import { isConnectionSound, translateFailure } from "./postgres-errors.ts";

const connectTimeoutMs = 5_000;
const statementTimeoutMs = 30_000;
const lockTimeoutMs = 10_000;
const idleInTransactionTimeoutMs = 30_000;

const bigintType = 20;
const numericType = 1700;

/** Counts and sums are numbers, as SQLite answers them. */
const types: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: "text" | "binary") =>
    oid === bigintType || oid === numericType
      ? Number
      : pg.types.getTypeParser(oid, format as "text")) as typeof pg.types.getTypeParser,
};

export type Statement = { text: string; values: unknown[]; name?: string };

export type PostgresClient = {
  query(statement: string | Statement, values?: readonly unknown[]): Promise<pg.QueryResult>;
  release(discard?: boolean): void;
};

export type PostgresPool = { connect(): Promise<PostgresClient>; end(): Promise<void>; options: object };

export type PoolOptions = {
  url: string;
  connectionsMax: number;
  /** Statements that bring the schema up to date take as long as they take. */
  isPatient?: boolean;
  /** Throws when no statement may run now. */
  requireUsable?: () => void;
  /** Called after each statement that may have changed something, `commit` included, before it is acknowledged. */
  onChange?: () => void;
  onIdleFailure?: (failure: unknown) => void;
};

/** Throws without repeating the URL, which may hold a password. */
export function requirePostgresUrl(url: string): void {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined || !/^postgres(ql)?:$/.test(parsed.protocol) || parsed.pathname.length < 2) {
    throw invalidSetting("CATNAP_DATABASE_URL", "a URL such as postgres://user:password@host:5432/database");
  }
}

/** Where the database is, without who may use it. */
export function describePlace(url: string): string {
  const { hostname, port, pathname, searchParams } = new URL(url);
  return `${hostname || (searchParams.get("host") ?? "localhost")}${port && `:${port}`}${pathname}`;
}

export function connectionOptions(url: string, isPatient = false): pg.ClientConfig {
  return {
    connectionString: url,
    application_name: "catnap",
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: connectTimeoutMs,
    types,
    ...(!isPatient && {
      statement_timeout: statementTimeoutMs,
      lock_timeout: lockTimeoutMs,
      idle_in_transaction_session_timeout: idleInTransactionTimeoutMs,
      // For a server that does not answer at all any more.
      query_timeout: statementTimeoutMs + connectTimeoutMs,
    }),
  };
}

export function openPool(options: PoolOptions): PostgresPool {
  const { url, connectionsMax, isPatient, requireUsable, onChange, onIdleFailure } = options;
  const pool = new pg.Pool({
    ...connectionOptions(url, isPatient),
    max: connectionsMax,
    idleTimeoutMillis: 60_000,
    onConnect: makeDurable,
  });
  pool.on("error", (error) => onIdleFailure?.(translateFailure(error)));
  return {
    options: {},
    end: () => pool.end(),
    async connect() {
      requireUsable?.();
      try {
        return guard(await pool.connect(), { requireUsable, onChange });
      } catch (error) {
        throw translateFailure(error);
      }
    },
  };
}

/** A commit that is acknowledged must survive a loss of power: `off`, by configuration, role or database, is overruled. */
async function makeDurable(client: pg.PoolClient | pg.ClientBase): Promise<void> {
  await client.query(
    "select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'",
  );
}

function guard(client: pg.PoolClient, { requireUsable, onChange }: Pick<PoolOptions, "requireUsable" | "onChange">) {
  let isSound = true;
  // Without a listener, a connection that ends while it is in use would end the process.
  const onError = (): void => {
    isSound = false;
  };
  client.on("error", onError);
  const guarded: PostgresClient = {
    async query(statement, values = []) {
      const asked = typeof statement === "string" ? { text: statement, values: [...values] } : statement;
      try {
        requireUsable?.();
        return await client.query(asked);
      } catch (error) {
        if (!(error instanceof AppError) && !isConnectionSound(error)) isSound = false;
        throw translateFailure(error);
      } finally {
        if (onChange !== undefined && !/^\s*select\b/i.test(asked.text)) onChange();
      }
    },
    release(discard = false) {
      client.off("error", onError);
      client.release(discard || !isSound);
    },
  };
  return guarded;
}
