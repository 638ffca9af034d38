// Hundreds of clients that follow runs of one sandbox and never read: everybody else of that sandbox is served, and the runs wait.
import assert from "node:assert/strict";
import { test } from "node:test";
import { spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";
import { answerOf, footprint, latencies, SandboxUnderAttack } from "./sandbox-under-attack.ts";

const stalled = 150;
const mib = 1024 * 1024;

test(`${stalled} clients that never read what they follow hold up their own runs alone`, {
  timeout: 180_000,
}, async (t) => {
  await using platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "10m", CATNAP_WARM_INSTANCES: "0" });
  const sandbox = await SandboxUnderAttack.create(platform, "stalled", 2048);
  await sandbox.run("true");
  const before = footprint(sandbox);
  const rssBefore = await platform.daemonRssBytes();
  const headers = { accept: "text/event-stream", "content-type": "application/json" };
  const followers = Array.from({ length: stalled }, () => {
    const opened = sandbox.open("POST", "/process", { headers });
    opened.end(JSON.stringify({ command: `head -c ${8 * mib} /dev/zero | tr '\\0' x | tee /dev/stderr` }));
    return opened;
  });
  await Promise.all(followers.map(answerOf));
  // All of them stand still: nothing inside writes any more.
  const written = "cat /proc/[0-9]*/io | awk '/^wchar/ { sum += $2 } END { print sum }'";
  let last = 0;
  await eventually(
    async () => {
      const now = Number((await sandbox.run(written)).stdout);
      const moved = Math.abs(now - last);
      last = now;
      assert.ok(moved < mib, `${moved} bytes were written meanwhile`);
    },
    { timeoutMs: 60_000, intervalMs: 1_000 },
  );
  t.diagnostic(`exec beside them: median ${(await latencies(20, () => sandbox.run("true"))).toFixed(1)} ms`);
  t.diagnostic(`the daemon grew by ${(((await platform.daemonRssBytes()) - rssBefore) / mib).toFixed(0)} MiB`);
  for (const opened of followers) opened.destroy();
  await eventually(() => assert.deepEqual(footprint(sandbox), before), { timeoutMs: 60_000 });
});
