// The database that a test's data directory belongs to: a file in it or, with CATNAP_TEST_DATABASE=postgres, one of a server's.
import { createHash } from "node:crypto";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { after } from "node:test";
import pg from "pg";
import { findPostgresPrograms, startPostgres } from "../../scripts/test/postgres-server.ts";

export const testsOnPostgres = process.env.CATNAP_TEST_DATABASE === "postgres";

/** Given by the run of all tests, whose files share one server; a file that runs by itself starts its own. */
const serverUrlSetting = "CATNAP_TEST_POSTGRES_URL";

if (testsOnPostgres && process.env[serverUrlSetting] === undefined) {
  const server = await startPostgres();
  // Also for processes that the file's tests start.
  process.env[serverUrlSetting] = server.urlOf("postgres");
  // Hooks run in the order they came: the file's own, which stop what uses this server, come before.
  setImmediate(() => after(() => server[Symbol.asyncDispose]()));
}

function serverUrl(): string {
  return process.env[serverUrlSetting] ?? "";
}

function nameFor(dataDir: string): string {
  return `test_${createHash("sha256").update(dataDir).digest("hex").slice(0, 24)}`;
}

async function administer(statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl() });
  await client.connect();
  await client.query(statement).finally(() => client.end());
}

/** The same for the same directory; undefined where the database is a file in it. */
export async function databaseUrlFor(dataDir: string): Promise<string | undefined> {
  if (!testsOnPostgres) return undefined;
  const name = nameFor(dataDir);
  await administer(`create database "${name}"`).catch((error: unknown) => {
    // Made for an earlier server on this directory.
    if ((error as { code?: string }).code !== "42P04") throw error;
  });
  const url = new URL(serverUrl());
  url.pathname = `/${name}`;
  return url.href;
}

export async function dropDatabaseFor(dataDir: string): Promise<void> {
  if (testsOnPostgres) await administer(`drop database if exists "${nameFor(dataDir)}" with (force)`);
}

/** Asks the database behind the platform's back, in SQL that both databases have. */
export async function queryDatabase<Row>(
  { databasePath, databaseUrl }: { databasePath: string; databaseUrl: string | undefined },
  text: string,
  values: readonly (string | number | null)[],
): Promise<Row[]> {
  if (databaseUrl === undefined) {
    using database = new DatabaseSync(databasePath, { timeout: 60_000 });
    return database.prepare(text).all(...values) as Row[];
  }
  let count = 0;
  const types = { getTypeParser: (oid: number) => (oid === 20 || oid === 1700 ? Number : pg.types.getTypeParser(oid)) };
  const client = new pg.Client({ connectionString: databaseUrl, types: types as pg.CustomTypesConfig });
  await client.connect();
  try {
    return (
      await client.query(
        text.replaceAll("?", () => `$${++count}`),
        [...values],
      )
    ).rows as Row[];
  } finally {
    await client.end();
  }
}

/** Everything a server has stored, as text; nothing where the database is among the files of the data directory. */
export async function readAllRows(config: { databasePath: string; databaseUrl: string | undefined }): Promise<string> {
  if (config.databaseUrl === undefined) return "";
  const tables = "select table_name from information_schema.tables where table_schema = current_schema()";
  const names = await queryDatabase<{ table_name: string }>(config, tables, []);
  const rows = await Promise.all(
    names.map(({ table_name }) => queryDatabase(config, `select * from ${table_name}`, [])),
  );
  return JSON.stringify(rows);
}

/** A client program of the server's own version. */
export function postgresProgram(name: string): { program: string; environment: NodeJS.ProcessEnv } {
  const { bin, libraries } = findPostgresPrograms();
  return { program: join(bin, name), environment: { ...process.env, LD_LIBRARY_PATH: libraries } };
}
