// A database from before sandboxes and instances were two things: what is there keeps its instance and is counted.
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { Kysely, SqliteDialect } from "kysely";
import { adaptForKysely } from "../../src/control-plane/db/kysely-adapter.ts";
import * as first from "../../src/control-plane/db/migrations/0001-first-tables.ts";
import * as instances from "../../src/control-plane/db/migrations/0007-instances-and-quotas.ts";

test("sandboxes keep their instances, and those that hold a name are counted", async () => {
  const database = new DatabaseSync(":memory:");
  const kysely = new Kysely<never>({
    dialect: new SqliteDialect({ database: adaptForKysely(database, () => undefined) }),
  });
  await first.up(kysely);
  database.exec("insert into workspaces (id, name, created_at) values ('w', 'w', ''), ('v', 'v', '')");
  const insert = database.prepare(
    `insert into sandboxes (id, workspace_id, name, revision, status, holds_name, spec, enabled, created_at, updated_at, created_by,
      updated_by, retention_ms) values (?, ?, ?, 1, ?, ?, ?, 1, '', '', '', '', 0)`,
  );
  const spec = (memory: number): string => JSON.stringify({ runtime: { memory } });
  insert.run("a", "w", "a", "DEPLOYED", 1, spec(512));
  insert.run("b", "w", "b", "DEPLOYED", 1, spec(256));
  insert.run("c", "w", "c", "TERMINATED", 0, spec(1024));
  insert.run("d", "v", "d", "FAILED", 0, "{}");
  await instances.up(kysely as never);
  const rows = database.prepare("select id, instance_id, next_instance_id, memory_mb from sandboxes order by id").all();
  assert.deepEqual(
    rows.map((row) => Object.values(row)),
    [
      ["a", "a", null, 512],
      ["b", "b", null, 256],
      ["c", "c", null, 1024],
      ["d", "d", null, 0],
    ],
  );
  const usage = database.prepare("select workspace_id, sandboxes, memory_mb from workspace_usage").all();
  assert.deepEqual(
    usage.map((row) => Object.values(row)),
    [["w", 2, 768]],
  );
  await kysely.destroy();
});
