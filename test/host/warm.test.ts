// The warm pool under failures, and creations side by side: claims that meet a dead instance, starts that fail, and bounds on how many start at once.
import assert from "node:assert/strict";
import { appendFileSync, copyFileSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../eventually.ts";
import { buildGuest } from "../guest/start-guest.ts";
import { HostHarness } from "./harness.ts";

const warm = (harness: HostHarness): string[] =>
  harness
    .records()
    .filter(({ phase }) => phase === "warm")
    .map(({ id }) => id);

test("a warm instance that dies is removed and another one made", async () => {
  await using harness = await HostHarness.start({ warmInstances: 2 });
  await harness.host.warmed();
  const [victim, other] = warm(harness);
  await harness.kill(victim!);
  await eventually(() => {
    const now = warm(harness);
    assert.equal(now.length, 2);
    assert.ok(!now.includes(victim!) && now.includes(other!));
    assert.equal(harness.directories().length, 2);
  });
});

test("after a restart with another init, warm instances of the old one are replaced and sandboxes keep theirs", async () => {
  const dir = mkdtempSync(join(tmpdir(), "catnap-init-"));
  try {
    const guestBinary = join(dir, "init");
    copyFileSync(buildGuest("init"), guestBinary);
    await using harness = await HostHarness.start({ warmInstances: 2, guestBinary });
    await harness.host.warmed();
    await harness.create("older");
    await harness.host.warmed();
    const [kept, old] = [harness.record("older").id, warm(harness)];
    await harness.close();
    await harness.open();
    await harness.host.warmed();
    assert.deepEqual(warm(harness).sort(), old.sort(), "the same init: nothing to replace");
    await harness.close();
    // Beside it first, because a running program cannot be written to.
    copyFileSync(guestBinary, `${guestBinary}.new`);
    appendFileSync(`${guestBinary}.new`, "another build");
    renameSync(`${guestBinary}.new`, guestBinary);
    await harness.open();
    await harness.host.warmed();
    assert.equal(warm(harness).length, 2);
    for (const id of warm(harness)) assert.ok(!old.includes(id));
    assert.equal(harness.record("older").id, kept);
    await harness.call("older", "GET", "/process");
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});

test("a creation that is given an instance which has just died gets another one", async () => {
  await using harness = await HostHarness.start({ warmInstances: 1 });
  await harness.host.warmed();
  const [victim] = warm(harness);
  // Between the death and the daemon's learning of it.
  harness.driver.before.setLimits = async (id) => {
    if (id === victim) await harness.kill(id);
  };
  await harness.create("lucky");
  await harness.call("lucky", "GET", "/process");
  assert.notEqual(harness.record("lucky").id, victim);
  await eventually(() => assert.ok(!harness.directories().includes(victim!)));
});

test("instances that cannot be made are not tried all the time", async () => {
  await using harness = await HostHarness.start({ warmInstances: 2 });
  await harness.host.warmed();
  harness.driver.before.create = () => {
    throw new Error("no init");
  };
  const before = harness.driver.count("create");
  const beganMs = performance.now();
  for (const id of warm(harness)) await harness.kill(id);
  for (let attempt = 0; attempt < 20; attempt++) await assert.rejects(harness.create(`refused-${attempt}`));
  await eventually(() => assert.ok(harness.driver.count("create") > before + 20));
  const poolTries = harness.driver.count("create") - before - 20;
  // Its pauses double, from half a second on.
  const elapsedMs = performance.now() - beganMs;
  assert.ok(poolTries <= 4 + Math.log2(1 + elapsedMs / 500), `the pool tried ${poolTries} times in ${elapsedMs} ms`);
  harness.driver.before.create = undefined;
  await eventually(() => assert.equal(warm(harness).length, 2));
});

test("instances that die as soon as they are made are not made all the time", async () => {
  await using harness = await HostHarness.start({ warmInstances: 2, faults: { dieAfterMs: 20 } });
  await eventually(() => assert.ok(harness.driver.count("create") >= 3));
  const before = harness.driver.count("create");
  const beganMs = performance.now();
  await delay(1_000);
  const elapsedMs = performance.now() - beganMs;
  const made = harness.driver.count("create") - before;
  // Two after each pause, and the pauses double.
  assert.ok(made <= 2 + 2 * Math.log2(elapsedMs / 500), `${made} in ${elapsedMs} ms`);
});

test("fifty creations side by side all succeed, and only so many start at once", async () => {
  await using harness = await HostHarness.start({ warmInstances: 2 });
  await harness.host.warmed();
  let starting = 0;
  let most = 0;
  harness.driver.before.create = async () => {
    most = Math.max(most, ++starting);
    await delay(5);
    starting--;
  };
  const names = Array.from({ length: 50 }, (_, index) => `many-${index}`);
  await Promise.all(names.map((name) => harness.create(name)));
  assert.ok(most <= 2 * availableParallelism(), `${most} at once`);
  const ids = new Set(names.map((name) => harness.record(name).id));
  assert.equal(ids.size, 50);
  for (const name of names) assert.deepEqual(await harness.call(name, "GET", "/process"), []);
  await Promise.all(names.map((name) => harness.host.deleteInstance(harness.routes.get(name)!.instanceId)));
  await eventually(() => assert.equal(harness.directories().length, 2));
});

test("a creation that is given up while it waits for its turn leaves nothing", async () => {
  await using harness = await HostHarness.start();
  const release = Promise.withResolvers<void>();
  harness.driver.before.create = () => release.promise;
  const slots = 2 * availableParallelism();
  const started = Array.from({ length: slots }, (_, index) => harness.create(`first-${index}`));
  await eventually(() => assert.equal(harness.driver.count("create"), slots));
  const waiting = harness.create("late", { signal: AbortSignal.timeout(50) });
  await assert.rejects(waiting);
  release.resolve();
  await Promise.all(started);
  assert.equal(harness.directories().length, slots);
});

test("creating and deleting the same instance at once ends without it", async () => {
  await using harness = await HostHarness.start({ warmInstances: 1 });
  for (let round = 0; round < 20; round++) {
    const request = harness.request("fickle", `fickle00000000${String(round).padStart(2, "0")}`);
    const created = harness.host.createInstance(request, { signal: AbortSignal.timeout(60_000) });
    if (round % 2 === 0) await delay(round);
    const deleted = harness.host.deleteInstance(request.instanceId);
    await Promise.allSettled([created]);
    await deleted;
    await harness.host.deleteInstance(request.instanceId);
    assert.equal(harness.host.instanceStatus(request.instanceId), undefined);
  }
  assert.deepEqual(harness.host.listInstances(), []);
  await eventually(() => assert.equal(harness.directories().length, 1));
});

test("the same creation asked for at once and again makes one instance", async () => {
  await using harness = await HostHarness.start();
  const request = harness.request("one", "one0000000000000");
  const options = () => ({ signal: AbortSignal.timeout(60_000) });
  await Promise.all([1, 2, 3].map(() => harness.host.createInstance(request, options())));
  await harness.host.createInstance(request, options());
  assert.equal(harness.driver.count("create"), 1);
  assert.equal(harness.directories().length, 1);
});
