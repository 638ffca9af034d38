// The official client, unchanged, with a service account's credentials against a real platform: control plane and sandbox take its token.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";

type Client = typeof import("@blaxel/core");

let platform: SpawnedPlatform;
let client: Client;

before(async () => {
  platform = await spawnPlatform({});
  const account = await platform.call("POST", "/v0/service_accounts", { name: "robot", role: "member" });
  // The client reads its settings when it is loaded.
  Object.assign(process.env, {
    BL_API_URL: `${platform.url}/v0`,
    BL_RUN_URL: `${platform.url}/run`,
    BL_CLIENT_CREDENTIALS: Buffer.from(`${account.client_id}:${account.client_secret}`).toString("base64"),
    BL_WORKSPACE: "main",
    BL_REGION: "local",
    BL_DISABLE_H2: "1",
    DO_NOT_TRACK: "1",
  });
  delete process.env.BL_API_KEY;
  client = await import("@blaxel/core");
});

after(async () => {
  await platform[Symbol.asyncDispose]();
});

test("a sandbox is created, used and deleted with nothing but client credentials", async () => {
  const sandbox = await client.SandboxInstance.create({ name: "with-token", memory: 512 });
  assert.equal(sandbox.metadata.createdBy, "robot");
  const ran = await sandbox.process.exec({ command: "echo hello", waitForCompletion: true });
  assert.equal(ran.stdout, "hello\n");
  await sandbox.fs.write("/tmp/greeting.txt", "hello");
  assert.equal(await sandbox.fs.read("/tmp/greeting.txt"), "hello");
  await client.SandboxInstance.delete("with-token");
});

test("the platform's metadata is at the root of its origin", async () => {
  const response = await fetch(`${platform.url}/.well-known/oauth-authorization-server/v0`);
  assert.equal(((await response.json()) as { issuer: string }).issuer, `${platform.url}/v0`);
});
