// Changing the sealing key while the platform serves: everything opens before, during and after; a wrong key is refused.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { sealedColumns } from "../../src/control-plane/seal-keys/sealed-columns.ts";
import { SealKey } from "../../src/core/seal.ts";
import { SealKeys } from "../../src/core/seal-keys.ts";
import { type Server, type ServerOptions, startServer } from "../control-plane/harness.ts";

const start = (options: ServerOptions = {}) =>
  startServer({ ...options, config: { sealKeySettleMs: 20, ...options.config } });

const status = async (server: Server) => (await server.operate("GET", "/v0/seal-key")).body;

async function rotate(
  server: Server,
): Promise<{ keyId: string; rotation: { phase: string; resealed: number; reason?: string } }> {
  assert.equal((await server.operate("POST", "/v0/seal-key/rotation")).status, 200);
  const deadline = Date.now() + 120_000;
  for (;;) {
    const now = await status(server);
    if (["done", "failed"].includes(now.rotation?.phase)) return now;
    assert.ok(Date.now() < deadline, "the rotation has not ended");
    await delay(20);
  }
}

const withSecret = (name: string, value = `value-${name}`) => ({
  name,
  spec: { runtime: { envs: [{ name: "TOKEN", value, secret: true }] } },
});

const secretOf = async ({ call }: Server, name: string) =>
  (await call("GET", `/v0/sandboxes/${name}?show_secrets=true`)).body.spec.runtime.envs[0].value;

/** Every text in the database that was sealed with another key than the current one, by table. */
async function oldTexts(server: Server): Promise<string[]> {
  const { prefix } = new SealKeys(server.config.sealKey).key;
  const found: string[] = [];
  for (const { table, column } of sealedColumns) {
    const rows = await server.query<Record<string, string>>(
      `select ${column} from ${table} where ${column} is not null`,
    );
    for (const row of rows) if (!row[column]!.startsWith(prefix)) found.push(`${table}.${column}`);
  }
  return found;
}

test("everything is sealed anew, and the old key opens nothing any more", async () => {
  await using server = await start();
  const before = readFileSync(server.config.sealKey.path);
  const { keyId } = await status(server);
  await server.create(withSecret("a"), { headers: { "idempotency-key": "key-a" } });
  await server.call("POST", "/v0/integrations/connections", {
    body: { metadata: { name: "c" }, spec: { secret: { token: "connection-secret-value" } } },
  });
  const previews = "/v0/sandboxes/a/previews";
  await server.call("POST", previews, { body: { metadata: { name: "p" }, spec: { port: 443 } } });
  const { token } = (await server.call("POST", `${previews}/p/tokens`, { body: { metadata: { name: "t" } } })).body
    .spec;
  const ended = await rotate(server);
  assert.equal(ended.rotation.phase, "done");
  assert.notEqual(ended.keyId, keyId);
  assert.ok(ended.rotation.resealed >= 4);
  assert.equal((await server.call("GET", `${previews}/p/tokens`)).body[0].spec.token, token);
  assert.deepEqual(await oldTexts(server), []);
  assert.equal(await secretOf(server, "a"), "value-a");
  const [row] = await server.query<{ id: string; sealed_envs: string }>("select id, sealed_envs from sandboxes");
  assert.throws(() => new SealKey(before).open(row!.sealed_envs, `envs:${row!.id}`));
  assert.ok(!readFileSync(server.config.sealKey.path).includes(before.toString("base64")));
  const [installation] = await server.query("select seal_key_id, previous_seal_key_id from installation");
  assert.deepEqual({ ...installation }, { seal_key_id: ended.keyId, previous_seal_key_id: null });
});

test("a repeated request is recognised across the change, and another one under its key refused", async () => {
  await using server = await start();
  const headers = { "idempotency-key": "key-a" };
  const first = await server.create(withSecret("a"), { headers });
  await rotate(server);
  assert.deepEqual((await server.create(withSecret("a"), { headers })).body, first.body);
  assert.equal((await server.create(withSecret("a", "other"), { headers })).status, 422);
  await server.controlPlane[Symbol.asyncDispose]();
  await using again = await start({ dataDir: server.dataDir, apiKey: server.apiKey, host: server.host });
  assert.deepEqual((await again.create(withSecret("a"), { headers })).body.metadata.name, "a");
  assert.equal((await again.create(withSecret("a", "other"), { headers })).status, 422);
  await rotate(again);
  assert.equal((await again.create(withSecret("a"), { headers })).status, 200);
});

test("sandboxes are made and read while the key changes", async () => {
  await using server = await start({ config: { sealKeySettleMs: 50 } });
  for (let count = 0; count < 20; count += 1) await server.create(withSecret(`old-${count}`));
  let isOver = false;
  const made: string[] = [];
  const load = async (worker: number): Promise<void> => {
    for (let count = 0; !isOver && count < 2_000; count += 1) {
      const name = `new-${worker}-${count}`;
      assert.equal((await server.create(withSecret(name))).status, 200);
      made.push(name);
      assert.equal(await secretOf(server, name), `value-${name}`);
      assert.equal(await secretOf(server, `old-${count % 20}`), `value-old-${count % 20}`);
    }
  };
  const loads = [load(0), load(1)];
  for (let round = 0; round < 2; round += 1) assert.equal((await rotate(server)).rotation.phase, "done");
  isOver = true;
  await Promise.all(loads);
  assert.deepEqual(await oldTexts(server), []);
  for (const name of made) assert.equal(await secretOf(server, name), `value-${name}`);
});

test("ten thousand texts are sealed anew in portions", async () => {
  await using server = await start();
  await server.create(withSecret("template"));
  const { key } = new SealKeys(server.config.sealKey);
  const { workspaceId } = server.controlPlane.bootstrap;
  const rows = 10_000;
  for (let done = 0; done < rows; done += 50) {
    const values: string[] = [];
    const given: string[] = [];
    for (let index = done; index < done + 50; index += 1) {
      values.push("(?, ?, ?, ?, ?, ?, ?, ?)");
      const name = `key-${String(index).padStart(5, "0")}`;
      const sealed = key.seal(`"answer ${index}"`, `answer:${workspaceId}:p:${name}`);
      given.push(workspaceId, "p", name, "f", "s", sealed, "2026-01-01T00:00:00.000Z", "2999-01-01T00:00:00.000Z");
    }
    await server.query(
      `insert into idempotency_keys (workspace_id, principal_id, key, fingerprint, sandbox_id, sealed_answer, created_at, expires_at)
       values ${values.join(", ")}`,
      ...given,
    );
  }
  const ended = await rotate(server);
  assert.equal(ended.rotation.phase, "done");
  assert.ok(ended.rotation.resealed > rows);
  assert.deepEqual(await oldTexts(server), []);
  const opened = new SealKeys(server.config.sealKey).key;
  for (const index of [0, 4_999, 9_999]) {
    const name = `key-${String(index).padStart(5, "0")}`;
    const [row] = await server.query<{ sealed_answer: string }>(
      "select sealed_answer from idempotency_keys where key = ?",
      name,
    );
    assert.equal(opened.open(row!.sealed_answer, `answer:${workspaceId}:p:${name}`), `"answer ${index}"`);
  }
});

test("a text that does not open keeps the old key, and says so; once it is gone the change ends", async () => {
  await using server = await start();
  await server.create(withSecret("a"));
  await server.create(withSecret("b"));
  await server.query(
    "update sandboxes set sealed_envs = (select sealed_envs from sandboxes where name = 'a') where name = 'b'",
  );
  const failed = await rotate(server);
  assert.equal(failed.rotation.phase, "failed");
  assert.match(failed.rotation.reason ?? "", /^1 sealed texts could not be opened.* old key is kept/);
  assert.equal((await status(server)).previousKeyIds.length, 1);
  assert.equal(await secretOf(server, "a"), "value-a");
  await server.query("update sandboxes set sealed_envs = null where name = 'b'");
  assert.equal((await rotate(server)).rotation.phase, "done");
  assert.deepEqual((await status(server)).previousKeyIds, []);
});

test("instances the host cannot read keep the old key", async () => {
  await using server = await start();
  server.host.resealInstances = () => Promise.resolve({ resealed: 0, unreadable: 1 });
  assert.equal((await rotate(server)).rotation.phase, "failed");
  server.host.resealInstances = () => Promise.resolve({ resealed: 0, unreadable: 0 });
  assert.equal((await rotate(server)).rotation.phase, "done");
});

test("a wrong key, an old key file and a broken one are refused before anything is opened", async () => {
  await using server = await start();
  await server.create(withSecret("a"));
  const { path } = server.config.sealKey;
  copyFileSync(path, `${path}.before`);
  await rotate(server);
  copyFileSync(path, `${path}.after`);
  await server.controlPlane[Symbol.asyncDispose]();
  const again = () => start({ dataDir: server.dataDir, apiKey: server.apiKey, host: server.host });
  for (const [content, message] of [
    [randomBytes(32), /does not belong to this database/],
    [readFileSync(`${path}.before`), /does not belong to this database/],
    [Buffer.from("{}"), /holds no sealing key/],
    [Buffer.alloc(0), /holds no sealing key/],
    [Buffer.alloc(31), /holds no sealing key/],
  ] as const) {
    writeFileSync(path, content);
    await assert.rejects(again(), message);
  }
  copyFileSync(`${path}.after`, path);
  await using server2 = await again();
  assert.equal(await secretOf(server2, "a"), "value-a");
});

test("a key from the environment: the new one takes over beside the old one, and is then needed alone", async () => {
  await using server = await start();
  await server.create(withSecret("a"));
  const fileKey = readFileSync(server.config.sealKey.path).toString("base64");
  await server.controlPlane[Symbol.asyncDispose]();
  const [first, second] = [randomBytes(32).toString("base64"), randomBytes(32).toString("base64")];
  const startWith = (current: string, previous?: string) =>
    start({
      dataDir: server.dataDir,
      apiKey: server.apiKey,
      host: server.host,
      settings: { CATNAP_SEAL_KEY: current, ...(previous !== undefined && { CATNAP_SEAL_KEY_PREVIOUS: previous }) },
    });
  await assert.rejects(startWith(first), /does not belong to this database/);
  {
    await using moved = await startWith(fileKey);
    assert.equal(await secretOf(moved, "a"), "value-a");
    const refused = await moved.operate("POST", "/v0/seal-key/rotation");
    assert.equal(refused.status, 400);
    assert.match(refused.body.message, /CATNAP_SEAL_KEY_PREVIOUS/);
  }
  {
    await using both = await startWith(first, fileKey);
    assert.equal(await secretOf(both, "a"), "value-a");
  }
  // Not sealed anew yet: the old key is still needed, and a third one cannot take over.
  await assert.rejects(startWith(first), /the key before it is missing/);
  await assert.rejects(startWith(second, first), /the key before it is missing/);
  {
    await using both = await startWith(first, fileKey);
    assert.equal((await rotate(both)).rotation.phase, "done");
    assert.equal((await status(both)).source, "environment");
  }
  await using alone = await startWith(first);
  assert.equal(await secretOf(alone, "a"), "value-a");
  for (const wrong of ["short", `${first}x`, "!".repeat(44), randomBytes(33).toString("base64")])
    await assert.rejects(startWith(wrong), /CATNAP_SEAL_KEY must be 32 bytes/);
});

test("every column that holds sealed texts is in the list, and nothing else is", async () => {
  await using server = await start();
  const texts =
    server.config.databaseUrl === undefined
      ? await server.query<{ t: string; c: string }>(
          "select m.name as t, p.name as c from sqlite_master m, pragma_table_info(m.name) p where m.type = 'table'",
        )
      : await server.query<{ t: string; c: string }>(
          "select table_name as t, column_name as c from information_schema.columns where table_schema = current_schema()",
        );
  const named = texts.filter(({ c }) => /seal/.test(c) && !/key_id$/.test(c)).map(({ t, c }) => `${t}.${c}`);
  assert.deepEqual(named.sort(), sealedColumns.map(({ table, column }) => `${table}.${column}`).sort());
});
