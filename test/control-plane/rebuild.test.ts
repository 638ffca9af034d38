// Updates that give a sandbox a new instance: the old one serves until then, and a rebuild ends whole or not at all.
import assert from "node:assert/strict";
import { test } from "node:test";
import { startServer, until, untilStatus } from "./harness.ts";
import { get, instanceOf, type Json, put, withRuntime } from "./updating.ts";

const waitsForAbort = (_request: unknown, signal: AbortSignal): Promise<void> =>
  new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

test("another environment, image or memory gives the sandbox a new instance, and the old one goes", async () => {
  await using server = await startServer();
  const { body: created } = await server.create({
    name: "moving",
    spec: { runtime: { envs: [{ name: "A", value: "1" }] } },
  });
  let sandbox = created;
  for (const [what, runtime] of [
    ["env", { envs: [{ name: "A", value: "2" }] }],
    ["no env", { envs: [] }],
    ["image", { image: "blaxel/py-app:latest" }],
    ["memory", { memory: 1024 }],
  ] as const) {
    const before = await instanceOf(server, "moving");
    const { status, body, text } = await put(server, "moving", withRuntime(sandbox, runtime));
    assert.equal(status, 200, `${what}: ${text}`);
    assert.equal(body.status, "DEPLOYED");
    assert.equal(body.events.length, sandbox.events.length + 1, `${what}: one event tells of it`);
    assert.notEqual(await instanceOf(server, "moving"), before, what);
    assert.equal(server.host.requests.at(-1)?.instanceId, await instanceOf(server, "moving"));
    await server.controlPlane.reconcile();
    assert.ok(server.host.instances.has(before ?? ""), "the old one ends its answers, whatever is compared meanwhile");
    await until("the old instance is gone", () => !server.host.instances.has(before ?? "") || undefined);
    sandbox = body;
  }
  assert.deepEqual(
    server.host.requests.map(({ environment }) => environment),
    [{ A: "1" }, { A: "2" }, {}, {}, {}],
  );
  assert.equal(server.host.requests.at(-1)?.image, "blaxel/py-app:latest");
  assert.equal(server.host.requests.at(-1)?.memoryMb, 1024);
  assert.equal(server.host.instances.size, 1);
  await server.controlPlane.reconcile();
  assert.equal((await get(server, "moving")).status, "DEPLOYED");
});

test("while the new instance is made the old one serves", async () => {
  await using server = await startServer();
  const { body: created } = await server.create({ name: "busy" });
  const before = await instanceOf(server, "busy");
  const release = Promise.withResolvers<void>();
  server.host.onCreate = () => release.promise;
  const updating = put(server, "busy", withRuntime(created, { memory: 256 }));
  await until("the host is asked", () => server.host.requests.length === 2 || undefined);
  const during = await get(server, "busy");
  assert.deepEqual([during.status, during.spec, during.events], ["DEPLOYED", created.spec, created.events]);
  assert.deepEqual(await server.controlPlane.directory.findRoute("main", "busy"), {
    instanceId: before,
    status: "DEPLOYED",
    enabled: true,
  });
  await server.controlPlane.reconcile();
  assert.deepEqual(server.host.deletions, [], "neither of both is taken for a leftover");
  release.resolve();
  assert.equal((await updating).body.spec.runtime.memory, 256);
});

test("a rebuild that fails leaves the sandbox as it was, and says so where the platform is at fault", async () => {
  await using server = await startServer();
  const { body: created } = await server.create({
    name: "safe",
    spec: { runtime: { envs: [{ name: "A", value: "1" }] } },
  });
  const before = await instanceOf(server, "safe");
  const badImage = await put(server, "safe", withRuntime(created, { image: "nowhere/none:1" }));
  assert.equal(badImage.status, 400);
  assert.match(badImage.body.message, /There is no image nowhere\/none:1/);
  assert.deepEqual(await get(server, "safe"), created);
  server.host.onCreate = () => {
    throw new Error("no room on /dev/secret-disk");
  };
  const noRoom = await put(server, "safe", withRuntime(created, { memory: 256 }));
  assert.equal(noRoom.status, 500);
  assert.ok(!noRoom.text.includes("secret-disk"));
  const after = await get(server, "safe");
  assert.deepEqual([after.spec, after.metadata, after.events], [created.spec, created.metadata, created.events]);
  assert.deepEqual(
    after.errors.map(({ code, fatal }: Json) => [code, fatal]),
    [["REBUILD_FAILED", false]],
  );
  assert.equal(await instanceOf(server, "safe"), before);
  server.host.onCreate = () => undefined;
  assert.equal((await put(server, "safe", withRuntime(created, { memory: 256 }))).status, 200);
  await until("one instance is left", () => server.host.instances.size === 1 || undefined);
});

test("a rebuild that the host never finishes is given up", async () => {
  await using server = await startServer({ config: { createTimeoutMs: 30 } });
  const { body: created } = await server.create({ name: "stuck" });
  server.host.onCreate = waitsForAbort;
  const { status, body } = await put(server, "stuck", withRuntime(created, { memory: 256 }));
  assert.equal(status, 503);
  assert.match(body.message, /the sandbox is what it was/);
  assert.deepEqual((await get(server, "stuck")).spec, created.spec);
});

test("deleting a sandbox that is being rebuilt ends the rebuild, and nothing of either instance is left", async () => {
  await using server = await startServer();
  const { body: created } = await server.create({ name: "torn" });
  server.host.onCreate = waitsForAbort;
  const updating = put(server, "torn", withRuntime(created, { memory: 256 }));
  await until("the host is asked", () => server.host.requests.length === 2 || undefined);
  assert.equal((await server.call("DELETE", "/v0/sandboxes/torn")).status, 200);
  const { status, body } = await updating;
  assert.deepEqual([status, body.error], [409, "conflict"]);
  await untilStatus(server, "torn", "TERMINATED");
  assert.equal(server.host.instances.size, 0);
});

test("updates at once happen one after the other, and the last one stays", async () => {
  await using server = await startServer();
  const { body: created } = await server.create({ name: "popular" });
  const sizes = [256, 512, 768, 1024, 512, 256];
  const answers = await Promise.all([
    ...sizes.map((memory) => put(server, "popular", withRuntime(created, { memory }))),
    put(server, "popular", { ...created, metadata: { ...created.metadata, labels: { by: "label" } } }),
  ]);
  for (const { status, text } of answers) assert.equal(status, 200, text);
  await until("one instance is left", () => server.host.instances.size === 1 || undefined);
  const instanceId = await instanceOf(server, "popular");
  const made = server.host.requests.find((request) => request.instanceId === instanceId);
  assert.equal((await get(server, "popular")).spec.runtime.memory, made?.memoryMb);
});

test("more updates than may wait are refused, and the sandbox is none the worse", async () => {
  await using server = await startServer();
  const { body: created } = await server.create({ name: "crowded" });
  const release = Promise.withResolvers<void>();
  server.host.onCreate = () => release.promise;
  const updating = Array.from({ length: 30 }, (_, index) =>
    put(server, "crowded", withRuntime(created, { memory: 256 + index })),
  );
  await Promise.any(updating.map(async (one) => assert.equal((await one).status, 409)));
  release.resolve();
  const statuses = (await Promise.all(updating)).map(({ status }) => status);
  assert.deepEqual([...new Set(statuses)].sort(), [200, 409]);
  assert.equal((await get(server, "crowded")).status, "DEPLOYED");
});

test("an update at the moment of a loss does not fail the new instance for the old one", async () => {
  await using server = await startServer();
  const { body: created } = await server.create({ name: "lossy" });
  server.host.instances.delete((await instanceOf(server, "lossy")) ?? "");
  const updated = await put(server, "lossy", withRuntime(created, { memory: 256 }));
  assert.equal(updated.status, 200);
  await server.controlPlane.reconcile();
  assert.equal((await get(server, "lossy")).status, "DEPLOYED");
});
