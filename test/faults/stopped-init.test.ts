// An init that somebody on the machine stops while requests wait on it goes on by itself: nothing is refused, nothing that runs is lost.
import assert from "node:assert/strict";
import { test } from "node:test";
import { spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";
import { SandboxUnderAttack } from "./sandbox-under-attack.ts";

test("requests that meet a stopped init are answered, and what runs inside goes on", {
  timeout: 400_000,
}, async (t) => {
  await using platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "10m", CATNAP_WARM_INSTANCES: "0" });
  const sandbox = await SandboxUnderAttack.create(platform, "stopped");
  await sandbox.call("POST", "/process", { name: "long", command: "sleep 1000" });
  const pid = sandbox.initPid();
  process.kill(pid, "SIGSTOP");
  const startedAt = performance.now();
  const [ran, file, listed] = await Promise.all([
    sandbox.run("echo went on"),
    sandbox.call("PUT", "/filesystem/tmp%2Ffile", { content: "written" }),
    sandbox.call("GET", "/filesystem/tree/tmp"),
  ]);
  t.diagnostic(`answered ${((performance.now() - startedAt) / 1000).toFixed(1)} s after the stop`);
  assert.equal(ran.stdout, "went on\n");
  assert.ok(file !== undefined && listed !== undefined);
  assert.equal((await sandbox.call("GET", "/process/long")).status, "running");
  assert.equal(sandbox.initPid(), pid);
  assert.deepEqual(
    (await sandbox.status()).errors.map(({ code }) => code),
    ["INIT_STOPPED"],
  );
});

test("a sandbox whose init is stopped can be deleted", { timeout: 400_000 }, async () => {
  await using platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "10m", CATNAP_WARM_INSTANCES: "0" });
  const sandbox = await SandboxUnderAttack.create(platform, "stopped");
  process.kill(sandbox.initPid(), "SIGSTOP");
  await sandbox.delete();
  await eventually(() => assert.throws(() => sandbox.record()));
});
