// What the host keeps of instances follows the sealing key, and nothing is dropped that could not be read.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { SealKeys } from "../../src/core/seal-keys.ts";
import { eventually } from "../eventually.ts";
import { HostHarness } from "./harness.ts";

const noAbort = (): AbortSignal => AbortSignal.timeout(20_000);

async function environmentOf(harness: HostHarness, name: string): Promise<string> {
  const done = await harness.call(name, "POST", "/process", { command: "echo $NAME", waitForCompletion: true });
  return String(done.stdout).trim();
}

test("instances keep their environment when the key changes, and need only the new one afterwards", async () => {
  await using harness = await HostHarness.start();
  await harness.create("a");
  await harness.create("b");
  const path = join(harness.dataDir, "seal.key");
  await harness.close();
  const keys = new SealKeys({ path });
  keys.prepare().start();
  await harness.open();
  assert.deepEqual(await harness.host.resealInstances(noAbort()), { resealed: 2, unreadable: 0 });
  assert.deepEqual(await harness.host.resealInstances(noAbort()), { resealed: 0, unreadable: 0 });
  for (const { claim } of harness.records()) {
    assert.ok(claim!.sealedEnvironment.startsWith(keys.key.prefix));
    assert.ok(claim!.sealedStateKey!.startsWith(keys.key.prefix));
  }
  await harness.close();
  keys.finish();
  await harness.open();
  assert.deepEqual(await Promise.all(["a", "b"].map((name) => environmentOf(harness, name))), ["a", "b"]);
});

test("an instance that was left alone is counted, since its environment may need the old key", async () => {
  await using harness = await HostHarness.start();
  await harness.create("damaged");
  await harness.create("whole");
  const file = join(harness.dataDir, "instances", harness.record("damaged").id, "instance.json");
  await harness.close();
  const text = readFileSync(file, "utf8");
  writeFileSync(file, text.slice(0, -10));
  await harness.open();
  assert.deepEqual(await harness.host.resealInstances(noAbort()), { resealed: 0, unreadable: 1 });
  await harness.close();
  writeFileSync(file, text);
  await harness.open();
  assert.deepEqual(await harness.host.resealInstances(noAbort()), { resealed: 0, unreadable: 0 });
});

test("what the sandbox API has sealed outlives a change of the key, and an instance of an earlier version gets a key for it", async () => {
  await using harness = await HostHarness.start();
  await harness.create("a");
  const file = join(harness.dataDir, "instances", harness.record("a").id, "instance.json");
  await harness.close();
  writeFileSync(file, readFileSync(file, "utf8").replace(/,"sealedStateKey":"[^"]*"/, ""));
  assert.equal(harness.record("a").claim!.sealedStateKey, undefined);
  await harness.open();
  assert.ok(harness.record("a").claim!.sealedStateKey);
  const command = "echo $SECRET; exit 1";
  const restarts = { restartOnFailure: true, maxRestarts: 2, env: { SECRET: "kept" } };
  await harness.call("a", "POST", "/process", { command, name: "again", ...restarts });
  await harness.close();
  const keys = new SealKeys({ path: join(harness.dataDir, "seal.key") });
  keys.prepare().start();
  await harness.open();
  await harness.host.resealInstances(noAbort());
  await harness.close();
  keys.finish();
  await harness.open();
  await eventually(async () => {
    const { status, stdout } = await harness.call("a", "GET", "/process/again");
    assert.deepEqual([status, String(stdout).match(/kept/g)?.length], ["failed", 3]);
  });
});
