// The store beneath the control plane: what is committed is read at once, what is not is not, and migrations are safe to repeat.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pino } from "pino";
import type { Database } from "../../src/control-plane/db/database.ts";
import { openDatabase } from "../../src/control-plane/db/open.ts";
import { createCreationStore } from "../../src/control-plane/sandboxes/creation-store.ts";
import { eventsMax } from "../../src/control-plane/sandboxes/events.ts";
import type { SandboxRecord } from "../../src/control-plane/sandboxes/record.ts";
import { createSandboxStore } from "../../src/control-plane/sandboxes/store.ts";
import { databaseUrlFor, dropDatabaseFor } from "./databases.ts";

const now = "2026-01-01T00:00:00.000Z";

type Temporary = AsyncDisposable & { database: Database; reopen: () => Promise<Database> };

async function openTemporary(): Promise<Temporary> {
  const dir = mkdtempSync(join(tmpdir(), "catnap-database-"));
  const config = { databasePath: join(dir, "catnap.db"), databaseUrl: await databaseUrlFor(dir) };
  const reopen = () => openDatabase({ config, isExclusive: false, log: pino({ level: "silent" }) });
  const database = await reopen();
  return {
    database,
    reopen,
    async [Symbol.asyncDispose]() {
      await database[Symbol.asyncDispose]();
      await dropDatabaseFor(dir);
      rmSync(dir, { recursive: true });
    },
  };
}

const addUser = (database: Database, id: string) =>
  database.kysely.insertInto("users").values({ id, name: id, created_at: now }).execute();

test("prepared reads see commits at once and never an open transaction", async () => {
  await using temporary = await openTemporary();
  const { database } = temporary;
  const count = database.prepareRead<{ count: number }>("select count(*) as count from users");
  const remembered = database.prepareRememberedRead<{ name: string }>("select name from users where id = ?");
  const both = async () => [(await count.first())?.count, (await remembered.first("a"))?.name];
  assert.deepEqual(await both(), [0, undefined]);
  const inside = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const transaction = database.kysely.transaction().execute(async (queries) => {
    await queries.insertInto("users").values({ id: "a", name: "ann", created_at: now }).execute();
    inside.resolve();
    await release.promise;
  });
  await inside.promise;
  assert.deepEqual(await both(), [0, undefined]);
  release.resolve();
  await transaction;
  assert.deepEqual(await both(), [1, "ann"]);
  await database.kysely.updateTable("users").set({ name: "anna" }).where("id", "=", "a").execute();
  assert.deepEqual(await both(), [1, "anna"]);
  await database.kysely.deleteFrom("users").where("id", "=", "a").execute();
  assert.deepEqual(await both(), [0, undefined]);
});

test("a transaction that fails leaves nothing", async () => {
  await using temporary = await openTemporary();
  const { database } = temporary;
  const failing = database.kysely.transaction().execute(async (queries) => {
    await queries.insertInto("users").values({ id: "a", name: "ann", created_at: now }).execute();
    throw new Error("no");
  });
  await assert.rejects(failing, /no/);
  assert.deepEqual(await database.kysely.selectFrom("users").selectAll().execute(), []);
});

test("transactions that overlap are kept apart", async () => {
  await using temporary = await openTemporary();
  const { database } = temporary;
  await Promise.all(
    Array.from({ length: 50 }, (_, index) =>
      database.kysely.transaction().execute(async (queries) => {
        await queries
          .insertInto("users")
          .values({ id: `u${index}`, name: "x", created_at: now })
          .execute();
        if (index % 2 === 1) throw new Error("every second one fails");
      }),
    ).map((transaction) => transaction.catch(() => undefined)),
  );
  await Promise.all([database.flush(), database.flush(), database.flush()]);
  assert.equal((await database.kysely.selectFrom("users").selectAll().execute()).length, 25);
});

test("opening again migrates nothing and keeps everything; references are enforced", async () => {
  await using temporary = await openTemporary();
  await addUser(temporary.database, "a");
  const again = await temporary.reopen();
  assert.equal((await again.kysely.selectFrom("users").selectAll().execute()).length, 1);
  await assert.rejects(
    again.kysely
      .insertInto("members")
      .values({ workspace_id: "none", user_id: "a", role: "admin", created_at: now })
      .execute(),
    /foreign key/i,
  );
  await again[Symbol.asyncDispose]();
});

test("the newest events of a sandbox are kept", async () => {
  await using temporary = await openTemporary();
  const { database } = temporary;
  await database.kysely.insertInto("workspaces").values({ id: "w", name: "w", created_at: now }).execute();
  const store = createSandboxStore(database);
  const record: SandboxRecord = {
    id: "abcdefghijklmnop",
    instanceId: "ponmlkjihgfedcba",
    nextInstanceId: undefined,
    workspaceId: "w",
    name: "busy",
    revision: 1,
    status: "DEPLOYED",
    displayName: undefined,
    externalId: undefined,
    labels: undefined,
    spec: {},
    sealedEnvs: undefined,
    errors: [],
    createdAt: now,
    updatedAt: now,
    createdBy: "x",
    updatedBy: "x",
    terminatedAt: undefined,
    retentionMs: 0,
  };
  const terms = { keyed: undefined, connections: [], limits: { sandboxes: 1, memoryMb: 1_000 } };
  assert.equal((await createCreationStore(database).insert(record, terms)).kind, "inserted");
  for (let change = 0; change < eventsMax + 20; change++) {
    const [from, to] = change % 2 === 0 ? (["DEPLOYED", "FAILED"] as const) : (["FAILED", "DEPLOYED"] as const);
    assert.ok(await store.changeStatus(record.id, { from: [from], to, message: `change ${change}` }));
  }
  const events = await store.findEvents(record.id);
  assert.equal(events.length, eventsMax);
  assert.equal(events.at(-1)?.message, `change ${eventsMax + 19}`);
  assert.equal(events[0]?.message, "change 20");
});
