// The daemon stops and starts again: what slept sleeps on, what must run runs on, what cannot be read is left alone.
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { HostHarness } from "./harness.ts";

test("sandboxes sleep while the daemon is away and stay asleep after it is back, until somebody asks", async () => {
  await using harness = await HostHarness.start();
  await harness.create("plain");
  const { pid } = await harness.call("plain", "POST", "/process", { name: "long", command: "sleep 1000" });
  const { id } = harness.record("plain");
  await harness.close();
  assert.equal((await harness.driver.inspect(id)).status, "frozen");
  await harness.open();
  assert.equal(harness.status("plain").state, "STANDBY");
  const found = await harness.call("plain", "GET", "/process/long");
  assert.deepEqual([found.status, found.pid], ["running", pid]);
  assert.deepEqual(harness.status("plain").errors, []);
});

test("a keepAlive process runs on after the daemon is back, without anybody asking", async () => {
  await using harness = await HostHarness.start({ idleTimeoutMs: 20 });
  await harness.create("kept");
  const command = "while :; do echo tick; sleep 0.05; done";
  await harness.call("kept", "POST", "/process", { name: "ticks", command, keepAlive: true, timeout: 0 });
  const { id } = harness.record("kept");
  await harness.close();
  assert.equal((await harness.driver.inspect(id)).status, "frozen");
  await harness.open();
  await eventually(async () => {
    assert.equal(harness.status("kept").state, "RUNNING");
    assert.equal((await harness.driver.inspect(id)).status, "running");
  });
  const before = ((await harness.call("kept", "GET", "/process/ticks/logs")).stdout as string).length;
  await eventually(async () => {
    const { stdout } = await harness.call("kept", "GET", "/process/ticks/logs");
    assert.ok((stdout as string).length > before);
  });
  await harness.call("kept", "DELETE", "/process/ticks/kill");
  await eventually(() => assert.equal(harness.status("kept").state, "STANDBY"));
});

test("a keepAlive process of an instance that died meanwhile holds nothing and is recorded as killed", async () => {
  await using harness = await HostHarness.start({ idleTimeoutMs: 20 });
  await harness.create("kept");
  await harness.call("kept", "POST", "/process", { name: "long", command: "sleep 1000", keepAlive: true, timeout: 0 });
  await harness.close();
  await harness.kill(harness.record("kept").id);
  await harness.open();
  assert.equal(harness.driver.count("restart"), 0, "nobody has asked for it yet");
  assert.equal((await harness.call("kept", "GET", "/process/long")).status, "killed");
  await eventually(() => assert.equal(harness.status("kept").state, "STANDBY"));
});

test("the daemon stops while requests, streams and starts are under way, and the sandbox sleeps", async () => {
  await using harness = await HostHarness.start();
  for (const name of ["busy", "dead"]) await harness.create(name);
  const waiting = harness.ask("busy", "POST", "/process", {
    name: "w",
    command: "sleep 1000",
    waitForCompletion: true,
  });
  await eventually(() => harness.call("busy", "GET", "/process/w"));
  const stream = await harness.ask("busy", "GET", "/process/w/logs/stream");
  const ids = ["busy", "dead"].map((name) => harness.record(name).id);
  await harness.kill(ids[1]!);
  await eventually(() => assert.equal(harness.status("dead").errors.length, 1));
  const begun = Promise.withResolvers<void>();
  harness.driver.before.restart = () => begun.resolve();
  const restarting = harness.ask("dead", "GET", "/health");
  await begun.promise;
  const ends = Promise.allSettled([waiting, restarting, stream.text()]);
  await harness.close();
  assert.deepEqual(
    (await ends).map(({ status }) => status),
    ["rejected", "rejected", "rejected"],
  );
  assert.equal((await harness.driver.inspect(ids[0]!)).status, "frozen");
  assert.deepEqual(harness.driver.overlaps, []);
  await harness.open();
  assert.equal((await harness.call("busy", "GET", "/process/w")).status, "running");
  await harness.call("dead", "GET", "/health");
});

const damages: [what: string, damage: (text: string) => string][] = [
  ["is empty", () => ""],
  ["is cut off", (text) => text.slice(0, text.length / 2)],
  ["is of another version", (text) => text.replace('"version":1', '"version":2')],
  ["has no phase", (text) => text.replace('"phase":"claimed",', "")],
  ["has an unknown phase", (text) => text.replace('"phase":"claimed"', '"phase":"napping"')],
  ["belongs to another instance", (text) => text.replace(/"id":"\w+"/, '"id":"abcdefghijkl"')],
  ["has lost its claim", (text) => text.replace(/"claim":\{[^}]*\},/, "")],
  [
    "has a claim sealed by another key",
    (text) => text.replace(/"sealedEnvironment":"v2\.[^"]*"/, `"sealedEnvironment":"v1.${"A".repeat(64)}"`),
  ],
  ["is a list", () => "[]"],
];

for (const [what, damage] of damages) {
  test(`an instance whose record ${what} is left alone`, async () => {
    await using harness = await HostHarness.start();
    await harness.create("damaged");
    await harness.create("whole");
    const { id } = harness.record("damaged");
    await harness.close();
    const file = join(harness.dataDir, "instances", id, "instance.json");
    const text = readFileSync(file, "utf8");
    assert.notEqual(damage(text), text);
    writeFileSync(file, damage(text));
    await harness.open();
    await harness.call("whole", "GET", "/health");
    assert.deepEqual(
      harness.host.listInstances().map(({ sandboxName }) => sandboxName),
      ["whole"],
    );
    assert.ok(existsSync(file));
    assert.equal((await harness.driver.inspect(id)).status, "frozen");
    // Once somebody has mended it, it is there again.
    await harness.close();
    writeFileSync(file, text);
    await harness.open();
    await harness.call("damaged", "GET", "/health");
  });
}

test("half-made and half-destroyed instances of an earlier daemon are removed, also when that fails at first", async () => {
  await using harness = await HostHarness.start({ removeRetryMs: 50 });
  for (const name of ["creating", "destroying", "whole"]) await harness.create(name);
  const files = ["creating", "destroying"].map((name) => ({
    phase: name,
    file: join(harness.dataDir, "instances", harness.record(name).id, "instance.json"),
  }));
  await harness.close();
  for (const { phase, file } of files) {
    writeFileSync(file, readFileSync(file, "utf8").replace('"phase":"claimed"', `"phase":"${phase}"`));
  }
  let refusals = 3;
  harness.driver.before.destroy = () => {
    if (refusals-- > 0) throw new Error("busy");
  };
  await harness.open();
  await eventually(() => assert.equal(harness.directories().length, 1));
  await harness.call("whole", "GET", "/health");
});
