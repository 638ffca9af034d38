// What the host keeps of instances follows the sealing key, and nothing is dropped that could not be read.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { SealKeys } from "../../src/core/seal-keys.ts";
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
  for (const { claim } of harness.records()) assert.ok(claim!.sealedEnvironment.startsWith(keys.key.prefix));
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
