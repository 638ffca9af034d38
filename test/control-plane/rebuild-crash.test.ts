// A crash in the middle of a rebuild: the sandbox has its old instance or its new one, never both and never none.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { Sandbox } from "../../src/contract/sandbox.ts";
import { eventually } from "../eventually.ts";
import { createFileHost } from "./crash-child.ts";
import { type Server, startServer, until } from "./harness.ts";
import { type Child, startChild, temporaryDir } from "./start-child.ts";

async function send(child: Child, method: string, path: string, body: unknown): Promise<Response> {
  return fetch(`${child.url}/v0/sandboxes${path}`, {
    method,
    headers: { authorization: `Bearer ${child.apiKey}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

function withMemory(name: string, memory: number): object {
  return { metadata: { name }, spec: { runtime: { memory } } };
}

/** What counts against the quota is what there is: a rebuild that ended half-way keeps no room. */
async function requireExactUsage(server: Server, memories: readonly number[]): Promise<void> {
  const [counted] = await server.query("select sandboxes, memory_mb from workspace_usage");
  const sum = memories.reduce((total, memory) => total + memory, 0);
  assert.deepEqual([Number(counted?.sandboxes), Number(counted?.memory_mb)], [memories.length, sum]);
}

test("a rebuild that a crash interrupts leaves the sandbox as it was, and may be asked for again", async () => {
  using dir = temporaryDir();
  await using child = await startChild(dir.path, "hang-rebuild");
  assert.equal((await send(child, "POST", "", withMemory("half", 128))).status, 200);
  const updating = send(child, "PUT", "/half", withMemory("half", 256)).then(
    () => "answered",
    () => "cut off",
  );
  const { hanging = "" } = await child.read();
  await child.kill();
  assert.equal(await updating, "cut off");
  const host = createFileHost(join(dir.path, "instances"));
  assert.deepEqual([host.instances.has(hanging), host.instances.size], [true, 2]);
  await using server = await startServer({ dataDir: dir.path, apiKey: child.apiKey, host });
  const [left] = host.instances.values();
  assert.deepEqual([host.instances.size, left?.memoryMb], [1, 128]);
  const route = await server.controlPlane.directory.findRoute("main", "half");
  assert.deepEqual([route?.instanceId, route?.status], [left?.instanceId, "DEPLOYED"]);
  const { body } = await server.call("GET", "/v0/sandboxes/half");
  assert.deepEqual([body.spec.runtime.memory, body.events.length], [128, 2]);
  await requireExactUsage(server, [128]);
  const again = await server.call("PUT", "/v0/sandboxes/half", { body: withMemory("half", 256) });
  assert.equal(again.status, 200, again.text);
  assert.equal(again.body.spec.runtime.memory, 256);
});

test("killed at random moments under updates, every sandbox has one instance, and it is the one its record describes", async () => {
  using dir = temporaryDir();
  let apiKey: string | undefined;
  /** The sizes that each sandbox may have: the last one acknowledged, and those asked for since. */
  const possible = new Map<string, number[]>();
  for (let round = 0; round < 6; round++) {
    await using child: Child = await startChild(dir.path, "work", apiKey);
    apiKey = child.apiKey;
    let updates = 0;
    const work = Array.from({ length: 4 }, async (_, lane) => {
      const name = `r${round}-${lane}`;
      possible.set(name, []);
      const made = await send(child, "POST", "", withMemory(name, 128));
      assert.equal(made.status, 200);
      possible.set(name, [128]);
      for (let memory = 129; ; memory++) {
        possible.get(name)?.push(memory);
        const answer = await send(child, "PUT", `/${name}`, withMemory(name, memory));
        assert.equal(answer.status, 200, await answer.clone().text());
        assert.equal(((await answer.json()) as Sandbox).spec.runtime?.memory, memory);
        possible.set(name, [memory]);
        updates++;
      }
    });
    const settled = Promise.allSettled(work);
    await eventually(() => assert.ok(updates > round), { intervalMs: 2 });
    await delay(Math.random() * 100);
    await child.kill();
    for (const { reason } of (await settled) as PromiseRejectedResult[]) {
      assert.ok(!(reason instanceof assert.AssertionError), String(reason));
    }
  }
  const host = createFileHost(join(dir.path, "instances"));
  await using server = await startServer({ dataDir: dir.path, apiKey, host });
  const { body: sandboxes } = await server.call("GET", "/v0/sandboxes");
  for (const { metadata, spec, status } of sandboxes) {
    assert.equal(status, "DEPLOYED", metadata.name);
    const sizes = possible.get(metadata.name) ?? [];
    assert.ok(sizes.length === 0 || sizes.includes(spec.runtime.memory), `${metadata.name}: ${spec.runtime.memory}`);
    const route = await server.controlPlane.directory.findRoute("main", metadata.name);
    const instance = host.instances.get(route?.instanceId ?? "");
    assert.equal(instance?.memoryMb, spec.runtime.memory, `${metadata.name} has the instance it describes`);
  }
  const acknowledged = [...possible].filter(([, sizes]) => sizes.length > 0).map(([name]) => name);
  const names = sandboxes.map(({ metadata }: Sandbox) => metadata.name);
  assert.deepEqual(
    acknowledged.filter((name) => !names.includes(name)),
    [],
  );
  await requireExactUsage(
    server,
    sandboxes.map(({ spec }: Sandbox) => spec.runtime?.memory),
  );
  await until("no instance is left over", () => host.instances.size === sandboxes.length || undefined);
  assert.equal(readdirSync(join(dir.path, "instances")).length, sandboxes.length);
});
