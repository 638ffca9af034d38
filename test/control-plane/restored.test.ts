// A database older than the machine's instances: sandboxes that it has forgotten are set aside, not deleted.
import assert from "node:assert/strict";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type Server, startServer } from "./harness.ts";

const asideOf = ({ dataDir }: Server): string => join(dataDir, "control-plane", "set-aside-instances");

/** The database as a copy from before the sandbox was made has it. */
async function forget(server: Server, name: string, generation: number): Promise<void> {
  await server.query("delete from sandboxes where name = ?", name);
  await server.query("update installation set generation = ?", generation);
}

async function generationOf(server: Server): Promise<number> {
  const [row] = await server.query<{ generation: number }>("select generation from installation");
  return row?.generation ?? assert.fail("no installation");
}

test("instances that a restored database does not know are kept until the operator lets go of them", async () => {
  await using server = await startServer();
  await server.create({ name: "old" });
  const copied = await generationOf(server);
  await server.controlPlane.reconcile();
  await server.create({ name: "newer" });
  const { instanceId = "" } = server.host.requests.at(-1) ?? {};
  await forget(server, "newer", copied);
  const { dataDir, apiKey, host } = server;
  await using restored = await startServer({ dataDir, apiKey, host });
  await restored.controlPlane.reconcile();
  assert.deepEqual(host.deletions, []);
  assert.equal(readFileSync(asideOf(restored), "utf8"), `${instanceId}\n`);
  assert.match(restored.logged(), /the database is older than this machine/);
  assert.equal((await restored.call("GET", "/v0/sandboxes/old")).body.status, "DEPLOYED");
  assert.equal((await restored.create({ name: "newer" })).status, 200);

  rmSync(asideOf(restored));
  await restored.controlPlane.reconcile();
  assert.deepEqual(host.deletions, [instanceId]);
});

test("an instance without a sandbox in a database of today is deleted", async () => {
  await using server = await startServer();
  await server.create({ name: "stray" });
  const { instanceId = "" } = server.host.requests.at(-1) ?? {};
  await server.controlPlane.reconcile();
  await forget(server, "stray", await generationOf(server));
  await server.controlPlane.reconcile();
  assert.deepEqual(server.host.deletions, [instanceId]);
  assert.ok(!existsSync(asideOf(server)));
});

test("a mark that cannot be read deletes nothing", async () => {
  await using server = await startServer();
  await server.create({ name: "one" });
  const { instanceId = "" } = server.host.requests.at(-1) ?? {};
  writeFileSync(join(server.dataDir, "control-plane", "generation"), "what?");
  await forget(server, "one", await generationOf(server));
  await server.controlPlane.reconcile();
  assert.deepEqual(server.host.deletions, []);
  assert.equal(readFileSync(asideOf(server), "utf8"), `${instanceId}\n`);
});

test("every pass counts, and both places agree", async () => {
  await using server = await startServer();
  const before = await generationOf(server);
  await server.controlPlane.reconcile();
  const after = await generationOf(server);
  assert.ok(after > before);
  assert.equal(readFileSync(join(server.dataDir, "control-plane", "generation"), "utf8"), `${after}\n`);
});
