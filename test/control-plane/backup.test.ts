// Copies of the database: taken while it is in use, whole, usable with its sealing key and refused without.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { databaseUrlFor, dropDatabaseFor, postgresProgram, testsOnPostgres } from "./databases.ts";
import { type Server, startServer } from "./harness.ts";

type Place = AsyncDisposable & { path: string };

function newPlace(): Place {
  const path = mkdtempSync(join(tmpdir(), "catnap-backup-"));
  return {
    path,
    async [Symbol.asyncDispose]() {
      await dropDatabaseFor(path);
      rmSync(path, { recursive: true, force: true });
    },
  };
}

/** As docs/operating.md says. */
async function backUp(server: Server, path: string): Promise<void> {
  if (!testsOnPostgres) {
    const answer = await server.operate("POST", "/v0/backups", { body: { path } });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.body.bytes, statSync(path).size);
    return;
  }
  const { program, environment } = postgresProgram("pg_dump");
  const args = ["--format=custom", "--no-owner", `--file=${path}`, server.config.databaseUrl ?? ""];
  execFileSync(program, args, { env: environment, stdio: ["ignore", "ignore", "pipe"] });
}

async function restore(path: string, dataDir: string): Promise<void> {
  if (!testsOnPostgres) {
    mkdirSync(join(dataDir, "control-plane"), { recursive: true });
    return copyFileSync(path, join(dataDir, "control-plane", "catnap.db"));
  }
  const { program, environment } = postgresProgram("pg_restore");
  const args = ["--no-owner", "--exit-on-error", `--dbname=${await databaseUrlFor(dataDir)}`, path];
  execFileSync(program, args, { env: environment, stdio: ["ignore", "ignore", "pipe"] });
}

const envs = [{ name: "TOKEN", value: "hidden-value", secret: true }];

test("a copy taken under load is restored with everything acknowledged before it, secrets included", async () => {
  await using place = newPlace();
  await using server = await startServer();
  await server.create({ name: "kept", spec: { runtime: { envs } } });
  const load = Array.from({ length: 20 }, (_, index) => server.create({ name: `load-${index}` }));
  const file = join(place.path, "backup");
  await backUp(server, file);
  await Promise.all(load);
  await server.create({ name: "later" });
  assert.equal(statSync(file).mode & 0o077, testsOnPostgres ? statSync(file).mode & 0o077 : 0);

  await restore(file, place.path);
  copyFileSync(server.config.sealKey.path, join(place.path, "seal.key"));
  await using restored = await startServer({ dataDir: place.path, apiKey: server.apiKey, host: server.host });
  const kept = await restored.call("GET", "/v0/sandboxes/kept?show_secrets=true");
  assert.deepEqual(kept.body.spec.runtime.envs, envs);
  assert.equal((await restored.call("GET", "/v0/sandboxes/later")).status, 404);
  assert.equal((await restored.create({ name: "new" })).status, 200);
  const counted = "select sum(count) as count from sandbox_counts";
  const [{ count } = { count: -1 }] = await restored.query<{ count: number }>(counted);
  const [{ count: real } = { count: -2 }] = await restored.query<{ count: number }>(
    "select count(*) as count from sandboxes",
  );
  assert.equal(count, real);
});

test("a copy without its sealing key is refused, whether the key is missing or another's", async () => {
  await using place = newPlace();
  await using server = await startServer();
  const file = join(place.path, "backup");
  await backUp(server, file);
  await restore(file, place.path);
  const open = () => startServer({ dataDir: place.path, apiKey: server.apiKey });
  await assert.rejects(open(), /does not belong to this database: restore the key file/);
  writeFileSync(join(place.path, "seal.key"), Buffer.alloc(32, 1));
  await assert.rejects(open(), /does not belong to this database: restore the key file/);
  copyFileSync(server.config.sealKey.path, join(place.path, "seal.key"));
  await using restored = await open();
  assert.equal((await restored.call("GET", "/v0/sandboxes")).status, 200);
});

test("a copy is written to a new file, or not at all", async () => {
  await using place = newPlace();
  await using server = await startServer();
  const ask = (path: unknown) => server.operate("POST", "/v0/backups", { body: { path } });
  const file = join(place.path, "taken");
  writeFileSync(file, "mine");
  const cases: [unknown, number, RegExp][] = testsOnPostgres
    ? [[join(place.path, "a"), 400, /PostgreSQL: copy them with pg_dump/]]
    : [
        [file, 409, /There is a file at the path already/],
        [join(dirname(file), "none", "a"), 400, /directory that exists/],
      ];
  for (const [path, status, message] of [
    ...cases,
    ["relative", 400, /path/],
    [5, 400, /path/],
    ["/a\0b", 400, /path/],
  ] as typeof cases) {
    const answer = await ask(path);
    assert.equal(answer.status, status, answer.text);
    assert.match(answer.body.message, message);
  }
  assert.equal(statSync(file).size, 4);
  assert.equal((await server.call("POST", "/v0/backups", { body: { path: join(place.path, "b") } })).status, 404);
});
