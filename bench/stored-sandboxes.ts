// Fills a control plane's database with copies of one sandbox, by the million, and measures what the bare database does beside it.
import { fdatasync } from "node:fs";
import { open } from "node:fs/promises";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import pg from "pg";

export type Store = { kind: "SQLite"; path: string } | { kind: "PostgreSQL"; url: string };

/** What differs from the copied row, as SQL over the number `i`. */
const copied = {
  SQLite: {
    series: "with recursive series(i) as (select cast(? as integer) union all select i + 1 from series where i < ?)",
    values: {
      id: "lower(hex(randomblob(8)))",
      instance_id: "lower(hex(randomblob(8)))",
      name: "'box-' || i",
      created_at: "strftime('%Y-%m-%dT%H:%M:%fZ', 1700000000 + i, 'unixepoch')",
    },
  },
  PostgreSQL: {
    series: "with series(i) as (select generate_series($1::integer, $2::integer))",
    values: {
      id: "substr(md5('a' || i), 1, 16)",
      instance_id: "substr(md5('b' || i), 1, 16)",
      name: "'box-' || i",
      created_at: `to_char(to_timestamp(1700000000 + i) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`,
    },
  },
};

const chunk = 100_000;

function copyStatement(kind: Store["kind"], columns: readonly string[]): string {
  const { series, values } = copied[kind];
  const selected = columns.map((column) => values[column as keyof typeof values] ?? `t.${column}`);
  return `${series} insert into sandboxes (${columns.join(", ")})
    select ${selected.join(", ")} from series, (select * from sandboxes where name = 'template') as t`;
}

/** Adds `box-<from>` to `box-<to>`; the sandbox `template` is there. */
export async function fill(store: Store, from: number, to: number): Promise<void> {
  const ranges = Array.from({ length: Math.ceil((to - from + 1) / chunk) }, (_, index) => {
    const first = from + index * chunk;
    return [first, Math.min(to, first + chunk - 1)] as const;
  });
  if (store.kind === "SQLite") {
    using database = new DatabaseSync(store.path, { timeout: 5_000 });
    // Nobody relies on it until it is full.
    database.exec("pragma synchronous = off; pragma secure_delete = off; pragma cache_size = -524288");
    const columns = database.prepare("select name from pragma_table_info('sandboxes')").all() as { name: string }[];
    const text = copyStatement(
      store.kind,
      columns.map(({ name }) => name),
    );
    const statement = database.prepare(text);
    for (const [first, last] of ranges) statement.run(first, last);
    database.exec("analyze");
    database.exec("pragma wal_checkpoint(truncate)");
    return;
  }
  const client = new pg.Client({ connectionString: store.url });
  await client.connect();
  try {
    const asked = "select column_name as name from information_schema.columns where table_name = 'sandboxes'";
    const columns = (await client.query(asked)).rows as { name: string }[];
    const text = copyStatement(
      store.kind,
      columns.map(({ name }) => name),
    );
    for (const range of ranges) await client.query(text, [...range]);
    await client.query("vacuum analyze");
    await client.query("checkpoint");
  } finally {
    await client.end();
  }
}

/** Durable one-row transactions a second, from as many callers at once as the measured requests come from. */
export async function bareCommitsPerSecond(store: Store, callers: number, durationMs: number): Promise<number> {
  const startedAt = performance.now();
  let committed = 0;
  const goesOn = (): boolean => performance.now() - startedAt < durationMs;
  if (store.kind === "SQLite") {
    using database = new DatabaseSync(store.path, { timeout: 5_000 });
    database.exec("create table if not exists bare (id integer primary key, text text); pragma synchronous = normal");
    const insert = database.prepare("insert into bare (text) values (?)");
    const log = await open(`${store.path}-wal`, "r");
    const sync = promisify(fdatasync);
    while (goesOn()) {
      insert.run("x".repeat(800));
      await sync(log.fd);
      committed++;
    }
    await log.close();
    database.exec("drop table bare");
  } else {
    const pool = new pg.Pool({ connectionString: store.url, max: callers });
    await pool.query("create table if not exists bare (id bigserial primary key, text text)");
    const caller = async (): Promise<void> => {
      for (; goesOn(); committed++) await pool.query("insert into bare (text) values ($1)", ["x".repeat(800)]);
    };
    await Promise.all(Array.from({ length: callers }, caller));
    await pool.query("drop table bare");
    await pool.end();
  }
  return committed / ((performance.now() - startedAt) / 1000);
}
