// A disk without room: what needs none goes on, what needs some is refused and leaves nothing, deleting always works.
import assert from "node:assert/strict";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { mountSmallDisk } from "../small-disk.ts";
import { HostHarness } from "./harness.ts";

test("on a full disk sandboxes sleep, wake and are deleted; creations are refused and leave nothing", async () => {
  using disk = mountSmallDisk(4);
  await using harness = await HostHarness.start({ idleTimeoutMs: 20, dataDir: disk.path, removeRetryMs: 50 });
  const { instanceId } = await harness.create("plain");
  await harness.call("plain", "POST", "/process", { name: "long", command: "sleep 1000" });
  disk.fill();
  for (let round = 0; round < 3; round++) {
    await eventually(() => assert.equal(harness.status("plain").state, "STANDBY"));
    assert.equal((await harness.call("plain", "GET", "/process/long")).status, "running");
  }
  await assert.rejects(harness.create("refused"), { code: "unavailable", message: /no room/ });
  assert.equal(harness.directories().length, 1);
  await harness.host.deleteInstance(instanceId);
  assert.deepEqual(harness.directories(), []);
});

test("a sandbox that dies on a full disk holds nothing, and goes on once there is room", async () => {
  using disk = mountSmallDisk(4);
  await using harness = await HostHarness.start({ idleTimeoutMs: 20, dataDir: disk.path });
  await harness.create("kept");
  for (const name of ["one", "two"]) {
    await harness.call("kept", "POST", "/process", { name, command: "sleep 1000", keepAlive: true, timeout: 0 });
  }
  disk.fill();
  await harness.kill(harness.record("kept").id);
  await eventually(() => assert.equal(harness.status("kept").errors.length, 1));
  // Whether it can be started again without room is open.
  assert.ok([200, 503].includes((await harness.ask("kept", "GET", "/process")).status));
  disk.free();
  for (const name of ["one", "two"]) {
    assert.equal((await harness.call("kept", "GET", `/process/${name}`)).status, "killed");
  }
  await eventually(() => assert.equal(harness.status("kept").state, "STANDBY"));
});

test("an end that cannot be recorded for want of room is recorded later", async () => {
  using disk = mountSmallDisk(4);
  await using harness = await HostHarness.start({ dataDir: disk.path });
  await harness.create("ending");
  const command = `until [ -e ${disk.path}/go ]; do sleep 0.02; done; exit 7`;
  const { pid } = await harness.call("ending", "POST", "/process", { name: "waits", command });
  mkdirSync(join(disk.path, "go"));
  disk.fill();
  await eventually(() => assert.ok(!existsSync(`/proc/${pid}`)));
  assert.equal((await harness.call("ending", "GET", "/process/waits")).status, "running", "it is not recorded yet");
  disk.free();
  await eventually(async () => {
    const { status, exitCode } = await harness.call("ending", "GET", "/process/waits");
    assert.deepEqual([status, exitCode], ["failed", 7]);
  });
});
