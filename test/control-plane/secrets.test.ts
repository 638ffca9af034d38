// Values of environment variables are not found where they do not belong: not in files, not in logs, not in answers.
import assert from "node:assert/strict";
import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { testsOnPostgres } from "./databases.ts";
import { startServer } from "./harness.ts";

const secret = "s3cr3t-zebra-crossing-41";
const plain = "plain-quagga-crossing-42";
const envs = [
  { name: "TOKEN", value: secret, secret: true },
  { name: "MODE", value: plain },
];

test("secret values are masked in every answer, and shown to an administrator who asks", async () => {
  await using server = await startServer();
  const headers = { "idempotency-key": "k" };
  const masked = [
    { name: "TOKEN", value: "********", secret: true },
    { name: "MODE", value: plain },
  ];
  const created = await server.create({ name: "holder", spec: { runtime: { envs } } }, { headers });
  assert.deepEqual(created.body.spec.runtime.envs, masked);
  const repeated = await server.create({ name: "holder", spec: { runtime: { envs } } }, { headers });
  assert.deepEqual(repeated.body.spec.runtime.envs, masked);
  const read = await server.call("GET", "/v0/sandboxes/holder");
  assert.deepEqual(read.body.spec.runtime.envs, masked);
  const bare = await server.call("GET", "/v0/sandboxes");
  assert.deepEqual(bare.body[0].spec.runtime.envs, masked);
  const paged = await server.call("GET", "/v0/sandboxes", { headers: { "blaxel-version": "2026-04-28" } });
  assert.deepEqual(paged.body.data[0].spec.runtime.envs, masked);
  const shown = await server.call("GET", "/v0/sandboxes/holder?show_secrets=true");
  assert.deepEqual(shown.body.spec.runtime.envs, envs);
  assert.deepEqual((await server.call("GET", "/v0/sandboxes/holder?show_secrets=false")).body, read.body);
  const deleted = await server.call("DELETE", "/v0/sandboxes/holder");
  assert.deepEqual(deleted.body.spec.runtime.envs, masked);
  assert.deepEqual(server.host.requests[0]?.environment, { TOKEN: secret, MODE: plain });
});

test("no value of an environment is in the files or the log, masked or not", async () => {
  await using server = await startServer();
  const headers = { "idempotency-key": "k" };
  await server.create({ name: "one", spec: { runtime: { envs } } }, { headers });
  await server.call("GET", "/v0/sandboxes/one?show_secrets=true");
  await server.call("GET", "/v0/sandboxes/one");
  server.host.onCreate = () => {
    throw new Error("out of disk");
  };
  await server.create({ name: "two", spec: { runtime: { envs } } });
  await server.create({ name: "three", spec: { runtime: { envs: [...envs, { name: "MODE", value: secret }] } } });
  await server.create({ name: "four", spec: { runtime: { envs: [{ name: "A", value: `${secret}\0` }] } } });
  await server.call("DELETE", "/v0/sandboxes/one");
  const files = await server.stored();
  for (const value of [secret, plain]) {
    assert.ok(!files.includes(value), "found in what is stored");
    assert.ok(!server.logged().includes(value), "found in the log");
  }
  assert.ok(files.includes("sealed_envs"), "what is stored was read");
  assert.match(server.logged(), /"route":"\/v0\/sandboxes"/);
});

test("refusals do not repeat values", async () => {
  await using server = await startServer();
  const answers = [
    await server.create({ spec: { runtime: { envs: [{ name: "A", value: 5, secret }] } } }),
    await server.create({ spec: { runtime: { envs: [{ name: "A", value: `${secret}\0` }] } } }),
    await server.create({ spec: { runtime: { envs: [...envs, ...envs] } } }),
    await server.create({ spec: { runtime: { envs: secret } } }),
  ];
  for (const answer of answers) {
    assert.equal(answer.status, 400);
    assert.ok(!answer.text.includes(secret), answer.text);
  }
});

test("a sandbox whose environment cannot be opened hides no other, can be deleted, and keeps what it has", async () => {
  await using server = await startServer();
  for (const name of ["whole", "damaged"]) await server.create({ name, spec: { runtime: { envs } } });
  await server.query("update sandboxes set sealed_envs = ? where name = ?", "v2.damaged", "damaged");
  for (let time = 0; time < 2; time++) {
    const listed = await server.call("GET", "/v0/sandboxes");
    assert.equal(listed.status, 200, listed.text);
    const shown = listed.body.map(({ metadata, spec }: { metadata: { name: string }; spec: { runtime: object } }) => [
      metadata.name,
      "envs" in spec.runtime,
    ]);
    assert.deepEqual(Object.fromEntries(shown), { whole: true, damaged: false });
  }
  const read = await server.call("GET", "/v0/sandboxes/damaged");
  assert.equal(read.status, 200);
  assert.equal((await server.call("PUT", "/v0/sandboxes/damaged", { body: read.body })).status, 500);
  const [row] = await server.query("select sealed_envs from sandboxes where name = ?", "damaged");
  assert.equal(row?.sealed_envs, "v2.damaged", "what was shown without it does not replace it");
  assert.equal((await server.call("DELETE", "/v0/sandboxes/damaged")).status, 200);
  assert.equal(server.logged().split("a sealed text cannot be opened").length, 2, "it is logged once");
});

test("the database and the key file are for their owner only", async () => {
  await using server = await startServer();
  const { databasePath, sealKey } = server.config;
  for (const path of [...(testsOnPostgres ? [] : [databasePath, `${databasePath}-wal`]), sealKey.path]) {
    assert.equal(statSync(path).mode & 0o777, 0o600, path);
  }
});

test("a key file that does not belong to the database is noticed at the start", async () => {
  await using server = await startServer();
  writeFileSync(join(server.dataDir, "seal.key"), Buffer.alloc(32, 7));
  await assert.rejects(
    startServer({ dataDir: server.dataDir, apiKey: server.apiKey }),
    /does not belong to this database/,
  );
});
