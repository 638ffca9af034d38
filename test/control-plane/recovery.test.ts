// After a crash, records and hosts agree again: what was acknowledged is there, what was not is gone, and nothing is left over.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../eventually.ts";
import { createFileHost } from "./crash-child.ts";
import { startServer, until, untilStatus } from "./harness.ts";
import { type Child, startChild, temporaryDir } from "./start-child.ts";

function post(child: Child, name: string, key: string): Promise<Response> {
  return fetch(`${child.url}/v0/sandboxes`, {
    method: "POST",
    headers: { authorization: `Bearer ${child.apiKey}`, "content-type": "application/json", "idempotency-key": key },
    body: JSON.stringify({ metadata: { name }, spec: {} }),
  });
}

test("a creation that a crash interrupts is undone, and may be repeated with its key", async () => {
  using dir = temporaryDir();
  await using child = await startChild(dir.path, "hang");
  const posted = post(child, "half", "k").then(
    () => "answered",
    () => "cut off",
  );
  const { hanging = "" } = await child.read();
  await child.kill();
  assert.equal(await posted, "cut off");
  const host = createFileHost(join(dir.path, "instances"));
  assert.ok(host.instances.has(hanging), "the host has the instance of the interrupted creation");
  await using server = await startServer({ dataDir: dir.path, apiKey: child.apiKey, host });
  assert.equal(host.instances.size, 0);
  assert.deepEqual(readdirSync(join(dir.path, "instances")), []);
  assert.equal((await server.call("GET", "/v0/sandboxes/half")).status, 404);
  const again = await server.create({ name: "half" }, { headers: { "idempotency-key": "k" } });
  assert.equal(again.status, 200);
  assert.equal(again.body.status, "DEPLOYED");
});

test("killed at random moments under load, nothing acknowledged is lost and nothing is left over", async () => {
  using dir = temporaryDir();
  let apiKey: string | undefined;
  const created = new Map<string, string>();
  const deleted = new Set<string>();
  for (let round = 0; round < 8; round++) {
    await using child: Child = await startChild(dir.path, "work", apiKey);
    apiKey = child.apiKey;
    const work = Array.from({ length: 4 }, async (_, lane) => {
      for (let count = 0; ; count++) {
        const name = `r${round}-${lane}-${count}`;
        const answer = await post(child, name, name);
        assert.equal(answer.status, 200);
        created.set(name, ((await answer.json()) as { metadata: { createdAt: string } }).metadata.createdAt);
        if (count % 2 === 1) continue;
        const headers = { authorization: `Bearer ${child.apiKey}` };
        const gone = await fetch(`${child.url}/v0/sandboxes/${name}`, { method: "DELETE", headers });
        assert.equal(gone.status, 200);
        deleted.add(name);
      }
    });
    const settled = Promise.allSettled(work);
    // Every other round gets far enough to have something to lose, however slow the machine is.
    const before = deleted.size;
    if (round % 2 === 1) await eventually(() => assert.ok(deleted.size > before), { intervalMs: 2 });
    await delay(20 + Math.random() * 150);
    await child.kill();
    for (const { reason } of (await settled) as PromiseRejectedResult[]) {
      assert.ok(!(reason instanceof assert.AssertionError), String(reason));
    }
  }
  const host = createFileHost(join(dir.path, "instances"));
  await using server = await startServer({ dataDir: dir.path, apiKey, host });
  assert.ok(created.size > 0 && deleted.size > 0, "the rounds did some work");
  for (const [name, createdAt] of created) {
    const { status, body } = await server.call("GET", `/v0/sandboxes/${name}`);
    assert.equal(status, 200, name);
    if (deleted.has(name)) assert.equal(body.status, "TERMINATED", name);
    const repeated = await server.create({ name }, { headers: { "idempotency-key": name } });
    assert.equal(repeated.body.metadata.createdAt, createdAt, `${name}: the key still stands for the first creation`);
  }
  const list = await server.call("GET", "/v0/sandboxes?showTerminated=true");
  const statuses = new Set(list.body.map(({ status }: { status: string }) => status));
  assert.deepEqual(
    [...statuses].filter((status) => status !== "DEPLOYED" && status !== "TERMINATED"),
    [],
  );
  const deployed = list.body.filter(({ status }: { status: string }) => status === "DEPLOYED").length;
  assert.equal(host.instances.size, deployed, "each instance belongs to a sandbox and each sandbox has one");
  assert.equal(readdirSync(join(dir.path, "instances")).length, deployed);
});

test("a deletion goes on after a restart", async () => {
  await using server = await startServer();
  await server.create({ name: "leaving" });
  server.host.onDelete = () => new Promise(() => undefined);
  await server.call("DELETE", "/v0/sandboxes/leaving");
  const { dataDir, apiKey, host } = server;
  host.onDelete = () => undefined;
  await using again = await startServer({ dataDir, apiKey, host });
  await untilStatus(again, "leaving", "TERMINATED");
  assert.equal(host.instances.size, 0);
});

test("a deletion that the host fails is tried again until it succeeds", async () => {
  await using server = await startServer({ config: { reconcileIntervalMs: 20 } });
  await server.create({ name: "sticky" });
  let attempts = 0;
  server.host.onDelete = () => {
    attempts++;
    if (attempts < 3) throw new Error("busy");
  };
  await server.call("DELETE", "/v0/sandboxes/sticky");
  await untilStatus(server, "sticky", "TERMINATED");
  // Deleting is idempotent: a pass that began before the record changed may ask once more.
  assert.ok(attempts >= 3);
});

test("an instance without a record is deleted; one that is being created is not", async () => {
  await using server = await startServer();
  server.host.instances.set("strayinstance123", {
    instanceId: "strayinstance123",
    workspace: "main",
    sandboxName: "stray",
    image: "blaxel/base-image:latest",
    memoryMb: 128,
    environment: {},
  });
  const release = Promise.withResolvers<void>();
  server.host.onCreate = ({ instanceId, ...request }) => {
    server.host.instances.set(instanceId, { instanceId, ...request });
    return release.promise;
  };
  const creating = server.create({ name: "fresh" });
  await untilStatus(server, "fresh", "DEPLOYING");
  await server.controlPlane.reconcile();
  assert.deepEqual(server.host.deletions, ["strayinstance123"]);
  release.resolve();
  assert.equal((await creating).status, 200);
});

test("a sandbox whose instance the host has lost is FAILED, says why, and gives its name up", async () => {
  await using server = await startServer();
  await server.create({ name: "unlucky" });
  await server.create({ name: "lucky" });
  const [unlucky] = server.host.requests;
  server.host.instances.delete(unlucky?.instanceId ?? "");
  await server.controlPlane.reconcile();
  const { body } = await server.call("GET", "/v0/sandboxes/unlucky");
  assert.equal(body.status, "FAILED");
  assert.equal(body.errors.length, 1);
  const [error] = body.errors;
  assert.deepEqual([error.code, error.fatal, error.instance], ["INSTANCE_LOST", true, unlucky?.instanceId]);
  assert.equal(await server.controlPlane.directory.findRoute("main", "unlucky"), undefined);
  assert.equal((await server.call("GET", "/v0/sandboxes/lucky")).body.status, "DEPLOYED");
  assert.equal((await server.create({ name: "unlucky" })).body.status, "DEPLOYED");
  await until("what was left of it is gone", async () => {
    const list = await server.call("GET", "/v0/sandboxes?showTerminated=true");
    return (
      list.body.every(({ status }: { status: string }) => status !== "FAILED" && status !== "DELETING") || undefined
    );
  });
});

test("a sandbox whose instance the host has found again is what it was, unless its name was taken", async () => {
  await using server = await startServer();
  await server.create({ name: "found" });
  await server.create({ name: "replaced" });
  const { instances, requests } = server.host;
  const lost = requests.slice(0, 2);
  for (const { instanceId } of lost) instances.delete(instanceId);
  await server.controlPlane.reconcile();
  assert.equal((await server.create({ name: "replaced" })).body.status, "DEPLOYED");
  for (const request of lost) instances.set(request.instanceId, request);
  await server.controlPlane.reconcile();
  const { body } = await server.call("GET", "/v0/sandboxes/found");
  assert.equal(body.status, "DEPLOYED");
  const told = body.errors.map(({ code, fatal }: { code: string; fatal: boolean }) => [code, fatal]);
  assert.deepEqual(told, [["INSTANCE_LOST", false]], "what happened is told and is not fatal any more");
  assert.equal((await server.controlPlane.directory.findRoute("main", "found"))?.instanceId, lost[0]?.instanceId);
  const route = await server.controlPlane.directory.findRoute("main", "replaced");
  assert.equal(route?.instanceId, requests[2]?.instanceId);
});

test("failures that a host reports are shown with the sandbox", async () => {
  await using server = await startServer();
  await server.create({ name: "shaky" });
  const reported = {
    code: "OOM",
    fatal: false,
    instance: "i",
    message: "out of memory",
    time: "2026-01-01T00:00:00.000Z",
  };
  server.host.errors = [reported];
  assert.deepEqual((await server.call("GET", "/v0/sandboxes/shaky")).body.errors, [reported]);
});

test("stopping in the middle of a creation undoes it", async () => {
  await using server = await startServer();
  server.host.onCreate = (_request, signal) =>
    new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const creating = server.create({ name: "late" });
  await untilStatus(server, "late", "DEPLOYING");
  const { dataDir, apiKey, host, controlPlane } = server;
  const stopping = controlPlane[Symbol.asyncDispose]();
  const answer = await creating;
  assert.equal(answer.status, 503);
  await stopping;
  await using again = await startServer({ dataDir, apiKey, host });
  assert.equal((await again.call("GET", "/v0/sandboxes/late")).status, 404);
});
