// A disk without room: what needs none goes on, what needs some is refused and leaves nothing, deleting always works.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { HostHarness } from "./harness.ts";

/** A small file system of its own, and how to take all of its room. */
function mountSmallDisk() {
  const dir = mkdtempSync(join(tmpdir(), "catnap-full-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=4m,mode=0700", "catnap-test", dir]);
  const filler = join(dir, "filler");
  return {
    dir,
    fill(): void {
      const file = openSync(filler, "w");
      try {
        for (const chunk of [Buffer.alloc(65_536), Buffer.alloc(1)]) for (;;) writeSync(file, chunk);
      } catch (error) {
        assert.equal((error as NodeJS.ErrnoException).code, "ENOSPC");
      } finally {
        closeSync(file);
      }
    },
    free: () => rmSync(filler, { force: true }),
    [Symbol.dispose](): void {
      execFileSync("umount", ["--lazy", dir]);
      rmSync(dir, { recursive: true });
    },
  };
}

test("on a full disk sandboxes sleep, wake and are deleted; creations are refused and leave nothing", async () => {
  using disk = mountSmallDisk();
  await using harness = await HostHarness.start({ idleTimeoutMs: 20, dataDir: disk.dir, removeRetryMs: 50 });
  const { instanceId } = await harness.create("plain");
  await harness.call("plain", "POST", "/process", { name: "long", command: "sleep 1000" });
  disk.fill();
  for (let round = 0; round < 3; round++) {
    await eventually(() => assert.equal(harness.status("plain").state, "STANDBY"));
    assert.equal((await harness.call("plain", "GET", "/process/long")).status, "running");
  }
  await assert.rejects(harness.create("refused"), { code: "internal", message: /could not be started/ });
  assert.equal(harness.directories().length, 1);
  await harness.host.deleteInstance(instanceId);
  assert.deepEqual(harness.directories(), []);
});

test("a sandbox that dies on a full disk holds nothing, and goes on once there is room", async () => {
  using disk = mountSmallDisk();
  await using harness = await HostHarness.start({ idleTimeoutMs: 20, dataDir: disk.dir });
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
  using disk = mountSmallDisk();
  await using harness = await HostHarness.start({ dataDir: disk.dir });
  await harness.create("ending");
  const command = `until [ -e ${disk.dir}/go ]; do sleep 0.02; done; exit 7`;
  const { pid } = await harness.call("ending", "POST", "/process", { name: "waits", command });
  mkdirSync(join(disk.dir, "go"));
  disk.fill();
  await eventually(() => assert.ok(!existsSync(`/proc/${pid}`)));
  assert.equal((await harness.call("ending", "GET", "/process/waits")).status, "running", "it is not recorded yet");
  disk.free();
  await eventually(async () => {
    const { status, exitCode } = await harness.call("ending", "GET", "/process/waits");
    assert.deepEqual([status, exitCode], ["failed", 7]);
  });
});
