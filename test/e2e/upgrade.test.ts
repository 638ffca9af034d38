// The official client upgrades a sandbox: its processes go on, the count outlives the platform, and the platform downloads from nowhere inside.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { projectRoot } from "../../src/dev/project.ts";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";
import { loadClient } from "./load-client.ts";

type Health = { upgradeCount: number; lastUpgrade?: { status: string; step: string; error?: string } };

// Another digest, the same program.
const build = Buffer.concat([readFileSync(join(projectRoot, "guest/build/catnap-init")), Buffer.from("another build")]);
let platform: SpawnedPlatform;
let builds: Server;
let baseUrl = "";

before(async () => {
  builds = createServer((request, response) => {
    if (!/^\/v2\/catnap-init-linux-(amd64|arm64)(\.sha256)?$/.test(request.url!)) return response.writeHead(404).end();
    response.end(request.url!.endsWith(".sha256") ? createHash("sha256").update(build).digest("hex") : build);
  });
  await new Promise<void>((resolve) => builds.listen(0, "127.0.0.1", resolve));
  const host = `127.0.0.1:${(builds.address() as AddressInfo).port}`;
  baseUrl = `http://${host}`;
  platform = await spawnPlatform({ CATNAP_OUTGOING_ALLOWED_HOSTS: host, CATNAP_WARM_INSTANCES: "0" });
});

after(async () => {
  await platform?.[Symbol.asyncDispose]();
  builds.close();
});

const health = async () => (await platform.call("GET", "/run/main/sandboxes/upgraded/health")) as unknown as Health;

const finished = () =>
  eventually(async () => {
    const report = await health();
    assert.notEqual(report.lastUpgrade?.status, "running");
    return report;
  });

test("the official client upgrades a sandbox in place", async () => {
  const client = await loadClient(platform);
  const sandbox = await client.SandboxInstance.create({ name: "upgraded", memory: 512 });
  await sandbox.process.exec({ name: "lives", command: "sleep 1000" });
  const { pid } = await sandbox.process.get("lives");

  const answer = await sandbox.system.upgrade({ version: "latest" });
  assert.match(answer.message!, /started/);
  assert.deepEqual((await finished()).lastUpgrade?.step, "skipped");

  await sandbox.system.upgrade({ version: "v2", baseUrl });
  const { lastUpgrade, upgradeCount } = await finished();
  assert.deepEqual(
    [lastUpgrade?.status, lastUpgrade?.step, upgradeCount],
    ["completed", "completed", 1],
    lastUpgrade?.error,
  );
  const lives = await sandbox.process.get("lives");
  assert.deepEqual([lives.pid, lives.status], [pid, "running"]);

  await sandbox.system.upgrade({ version: "latest" });
  assert.equal((await finished()).upgradeCount, 2, "and back to what the platform ships");

  await platform.stop();
  await platform.start();
  const report = await health();
  assert.deepEqual([report.upgradeCount, report.lastUpgrade?.step], [2, "completed"]);
  const ran = await platform.call("POST", "/run/main/sandboxes/upgraded/process", {
    command: "echo on",
    waitForCompletion: true,
  });
  assert.equal(ran.stdout, "on\n");
});

for (const inside of [
  "http://169.254.169.254/",
  "http://127.0.0.1:1/",
  "https://10.0.0.1/",
  "file:///etc",
  "http://example.com/",
]) {
  test(`the platform downloads nothing from ${inside}`, async () => {
    await assert.rejects(
      platform.call("POST", "/run/main/sandboxes/upgraded/upgrade", { baseUrl: inside }),
      /answered 400: .*'baseUrl' must/,
    );
  });
}
