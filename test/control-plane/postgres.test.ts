// PostgreSQL as the store: one platform holds it, an outage is 503 and ends by itself, and the password of its URL stays a secret.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { inspect } from "node:util";
import { CompiledQuery, sql } from "kysely";
import { pino } from "pino";
import { type PostgresServer, startPostgres } from "../../scripts/test/postgres-server.ts";
import { readControlPlaneConfig } from "../../src/control-plane/config.ts";
import type { Database } from "../../src/control-plane/db/database.ts";
import { openPostgres } from "../../src/control-plane/db/postgres.ts";
import { startServer, until } from "./harness.ts";

let server: PostgresServer;
before(async () => {
  server = await startPostgres();
});
after(() => server?.[Symbol.asyncDispose]());

let databases = 0;
const newDatabase = (): Promise<string> => server.createDatabase(`own_${databases++}`);

async function open(
  url: string,
  isExclusive = false,
): Promise<{ database: Database; logged: () => string } & AsyncDisposable> {
  const lines: string[] = [];
  const log = pino({ level: "debug" }, { write: (line: string) => lines.push(line) });
  const database = await openPostgres({ url, isExclusive, log });
  return { database, logged: () => lines.join(""), [Symbol.asyncDispose]: () => database[Symbol.asyncDispose]() };
}

const place = { dataDir: "/data", origin: "http://127.0.0.1:4000", pathPrefix: "/run" };

test("a URL that is none is refused without being repeated", () => {
  for (const url of [
    "postgres://u:geheim@h:x/d",
    "mysql://u:geheim@h/d",
    "geheim",
    "postgres://u:geheim@h",
    "postgres://u:geheim@h/",
  ]) {
    assert.throws(
      () => readControlPlaneConfig({ CATNAP_DATABASE_URL: url }, place),
      (error: Error) =>
        /^CATNAP_DATABASE_URL must be a URL/.test(error.message) && !JSON.stringify(error).includes("geheim"),
      url,
    );
  }
  assert.equal(readControlPlaneConfig({ CATNAP_DATABASE_URL: "" }, place).databaseUrl, undefined);
});

test("a server that refuses or is not there fails the start, and the password is in no word of it", async () => {
  const url = new URL(await newDatabase());
  url.password = "geheim";
  const away = new URL("postgres://u:geheim@127.0.0.1:1/d");
  for (const { href } of [url, away]) {
    const error = await open(href, true).then(
      () => assert.fail("opened"),
      (thrown: { code: string; message: string; stack: string; cause: object }) => thrown,
    );
    assert.equal(error.code, "unavailable");
    assert.match(error.message, /CATNAP_DATABASE_URL names, at 127\.0\.0\.1:/);
    assert.ok(!inspect(error, { depth: 10, showHidden: true }).includes("geheim"), inspect(error));
  }
});

test("a database belongs to one platform at a time, and to the next when the first has ended", async () => {
  const url = await newDatabase();
  const first = await open(url, true);
  await assert.rejects(open(url, true), (error: { code: string; message: string }) => {
    assert.equal(error.code, "conflict");
    assert.match(
      error.message,
      /^Another catnap already runs on the database at 127\.0\.0\.1:\d+\/own_\d+; stop it first\.$/,
    );
    return true;
  });
  await first[Symbol.asyncDispose]();
  await using second = await open(url, true);
  assert.deepEqual(await second.database.kysely.selectFrom("users").selectAll().execute(), []);
});

test("a restart of the server is an outage with 503, and everything acknowledged is there afterwards", async () => {
  const databaseUrl = await newDatabase();
  await using catnap = await startServer({ config: { databaseUrl } });
  assert.equal((await catnap.create({ name: "before" })).status, 200);
  const held = await open(databaseUrl, true);
  await server.stop("immediate");
  try {
    for (const [method, path] of [
      ["GET", "/v0/sandboxes/before"],
      ["GET", "/v0/sandboxes"],
      ["DELETE", "/v0/sandboxes/before"],
    ] as const) {
      // Rows kept in memory answer for a second.
      const answer = await until(`${method} ${path} is refused`, async () => {
        const given = await catnap.call(method, path);
        return given.status === 200 ? undefined : given;
      });
      assert.equal(answer.status, 503, answer.text);
      assert.equal(answer.body.error, "unavailable");
      assert.match(answer.headers.get("retry-after") ?? "", /^[1-9]\d?$/);
    }
    const created = await catnap.create({ name: "during" });
    assert.equal(created.status, 503, created.text);
    await assert.rejects(async () => held.database.prepareRead("select 1").first(), { code: "unavailable" });
  } finally {
    await server.start();
  }
  const { body } = await until("requests are served again", async () => {
    const answer = await catnap.call("GET", "/v0/sandboxes/before");
    return answer.status === 200 ? answer : undefined;
  });
  assert.equal(body.status, "DEPLOYED");
  assert.equal((await catnap.create({ name: "during" })).status, 200);
  await until("the lock is held again", () =>
    Promise.resolve(held.database.prepareRead("select 1").first()).then(
      () => true,
      () => undefined,
    ),
  );
  await assert.rejects(open(databaseUrl, true), { code: "conflict" });
  await held[Symbol.asyncDispose]();
  const password = new URL(databaseUrl).password;
  assert.ok(!catnap.logged().includes(password) && !held.logged().includes(password));
});

test("a read that began before a commit is not remembered after it", async () => {
  await using opened = await open(await newDatabase());
  const { database } = opened;
  // Waits, with what it sees decided, for whoever holds the lock.
  const slow = database.prepareRememberedRead<{ id: string | null }>(
    `with waited as materialized (select pg_advisory_xact_lock_shared(5))
     select users.id from waited left join users on users.id = ?`,
  );
  const waiting = database.prepareRead<{ count: number }>("select count(*) as count from pg_locks where not granted");
  const reading = await database.kysely.connection().execute(async (holder) => {
    await sql`select pg_advisory_lock(5)`.execute(holder);
    const read = Promise.resolve(slow.first("a"));
    await until("the read waits", async () => ((await waiting.first())?.count === 1 ? true : undefined));
    await holder.insertInto("users").values({ id: "a", name: "ann", created_at: "x" }).execute();
    await sql`select pg_advisory_unlock(5)`.execute(holder);
    return read.then((row) => ({ row }));
  });
  assert.deepEqual(reading.row, { id: null });
  assert.deepEqual(await slow.first("a"), { id: "a" });
  assert.ok(!(slow.first("a") instanceof Promise), "answered from memory");
});

test("commits are durable however the server is configured, counts are numbers, text is ordered by bytes", async () => {
  const url = await newDatabase();
  await using opened = await open(url);
  const { database } = opened;
  await database.kysely.executeQuery(
    CompiledQuery.raw(`alter database ${new URL(url).pathname.slice(1)} set synchronous_commit = off`),
  );
  await using again = await open(url);
  const setting = again.database.prepareRead<{ value: string }>(
    "select current_setting('synchronous_commit') as value",
  );
  assert.equal((await setting.first())?.value, "on");
  const count = again.database.prepareRead<{ count: number }>("select count(*) as count from users");
  assert.deepEqual(await count.first(), { count: 0 });
  for (const id of ["b", "a-b", "A", "ab"]) {
    await database.kysely.insertInto("users").values({ id, name: id, created_at: "x" }).execute();
  }
  const ids = await database.kysely.selectFrom("users").select("id").orderBy("id").execute();
  assert.deepEqual(
    ids.map(({ id }) => id),
    ["A", "a-b", "ab", "b"],
  );
});

test("transactions that wait for each other in a circle all come to their end", async () => {
  await using opened = await open(await newDatabase());
  const { database } = opened;
  const rows = ["a", "b"].map((id) => ({ id, name: "0", created_at: "x" }));
  await database.kysely.insertInto("users").values(rows).execute();
  const bothStarted = Promise.withResolvers<void>();
  let started = 0;
  const change = (first: string, second: string) =>
    database.transact(async (queries) => {
      const set = (id: string) =>
        queries
          .updateTable("users")
          .set({ name: `${first}${second}` })
          .where("id", "=", id)
          .execute();
      await set(first);
      if (++started >= 2) bothStarted.resolve();
      await bothStarted.promise;
      await set(second);
    });
  await Promise.all([change("a", "b"), change("b", "a")]);
  assert.ok(started >= 3, "one was run again");
});

test("text that PostgreSQL cannot keep is refused as the caller's mistake", async () => {
  await using catnap = await startServer({ config: { databaseUrl: await newDatabase() } });
  const answer = await catnap.call("GET", "/v0/sandboxes?externalId=a%00b");
  assert.equal(answer.status, 400, answer.text);
});
