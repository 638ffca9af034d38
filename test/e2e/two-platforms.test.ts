// Two platforms on one machine: they never touch each other's sandboxes, and never share a data directory or a port.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { createLogger } from "../../src/core/log.ts";
import { startPlatform } from "../../src/dev/platform.ts";
import { removeInstances } from "../../src/dev/remove.ts";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";

const pathOf = (name: string, rest: string): string => `/run/main/sandboxes/${name}${rest}`;

async function createWithTicker(platform: SpawnedPlatform, name: string): Promise<unknown> {
  await platform.call("POST", "/v0/sandboxes", { metadata: { name }, spec: { runtime: { memory: 512 } } });
  const command = "while :; do sleep 0.1; done";
  return (await platform.call("POST", pathOf(name, "/process"), { name: "ticker", command })).pid;
}

test("platforms of one machine leave each other's sandboxes alone, even with the same settings", async () => {
  // Everything but the data directory is what both would have by default.
  const settings = { CATNAP_CGROUP_PARENT: "catnap-shared", CATNAP_WARM_INSTANCES: "1" };
  await using first = await spawnPlatform(settings);
  const pid = await createWithTicker(first, "same-name");
  await first.warmed();
  await using second = await spawnPlatform(settings);
  const otherPid = await createWithTicker(second, "same-name");
  await first.kill();
  await second.kill();
  await second.start();
  await first.start();
  for (const [platform, expected] of [
    [first, pid],
    [second, otherPid],
  ] as const) {
    const { errors } = await platform.call("GET", "/v0/sandboxes/same-name");
    assert.deepEqual(errors, []);
    const found = await platform.call("GET", pathOf("same-name", "/process/ticker"));
    assert.deepEqual([found.status, found.pid], ["running", expected]);
  }
  await assert.rejects(
    first.call("GET", `${second.url}${pathOf("same-name", "/health")}`),
    /401/,
    "one platform's key opens nothing of the other",
  );
});

test("a second platform on the same data directory or port is refused and leaves nothing running", async () => {
  await using first = await spawnPlatform({ CATNAP_WARM_INSTANCES: "0" });
  const log = createLogger("silent");
  await assert.rejects(startPlatform({ env: first.env, overrides: { CATNAP_LISTEN: "127.0.0.1:0" }, log }), {
    code: "conflict",
    message: /already runs on/,
  });
  const dataDir = mkdtempSync(join(tmpdir(), "catnap-second-"));
  try {
    const overrides = { CATNAP_DATA_DIR: dataDir, CATNAP_LISTEN: new URL(first.url).host };
    await assert.rejects(startPlatform({ env: first.env, overrides, log }), { code: "conflict", message: /is taken/ });
    assert.deepEqual(readdirSync(dataDir), []);
    // Nothing of the attempt holds the directory.
    await using later = await startPlatform({
      env: first.env,
      overrides: { ...overrides, CATNAP_LISTEN: "127.0.0.1:0" },
      log,
    });
    assert.ok(later.firstApiKey !== undefined);
  } finally {
    await removeInstances({ ...first.env, CATNAP_DATA_DIR: dataDir }, log);
    rmSync(dataDir, { recursive: true, force: true });
    assert.ok(!existsSync(dataDir));
  }
  await first.call("GET", "/v0/sandboxes");
});
