// A change of the sealing key that is killed at any moment loses nothing: the platform starts, everything opens, and asking again ends it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { startServer, until } from "../control-plane/harness.ts";

const killsMax = 12;

async function killWhileRotating(dataDir: string, apiKey: string, afterMs: number): Promise<void> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "rotation-child.ts"), dataDir, apiKey], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    // It ends by itself when it cannot open what is there.
    const [said] = await Promise.race([once(child.stdout, "data"), once(child, "exit")]);
    assert.equal(String(said), "ready\n");
    await delay(afterMs);
  } finally {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }
}

test("killed at any moment, nothing is lost", async () => {
  await using server = await startServer();
  const names = Array.from({ length: 150 }, (_, index) => `s-${index}`);
  for (const name of names) {
    const envs = [{ name: "TOKEN", value: `value-${name}`, secret: true }];
    assert.equal((await server.create({ name, spec: { runtime: { envs } } })).status, 200);
  }
  await server.controlPlane[Symbol.asyncDispose]();
  const { dataDir, apiKey } = server;
  const keyIds = new Set<string>();
  for (let kill = 0; kill < killsMax; kill += 1) {
    await killWhileRotating(dataDir, apiKey, Math.random() * 150);
    await using again = await startServer({ dataDir, apiKey, host: server.host, config: { sealKeySettleMs: 1 } });
    const list = await again.call("GET", "/v0/sandboxes?limit=200&showTerminated=true");
    assert.ok(list.body.length >= names.length);
    for (const { metadata } of list.body) {
      const { status, body } = await again.call("GET", `/v0/sandboxes/${metadata.name}?show_secrets=true`);
      assert.equal(status, 200);
      assert.equal(body.spec.runtime.envs[0].value, `value-${metadata.name}`);
    }
    keyIds.add((await again.operate("GET", "/v0/seal-key")).body.keyId);
    await again.operate("POST", "/v0/seal-key/rotation");
    const ended = await until("the rotation has ended", async () => {
      const now = (await again.operate("GET", "/v0/seal-key")).body;
      return ["done", "failed"].includes(now.rotation.phase) ? now : undefined;
    });
    assert.deepEqual([ended.rotation.phase, ended.previousKeyIds], ["done", []]);
  }
  assert.ok(keyIds.size > 1, "no kill came after a change had begun");
});
