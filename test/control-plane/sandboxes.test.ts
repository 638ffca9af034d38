// Creating, reading and deleting sandboxes over HTTP.
import assert from "node:assert/strict";
import { test } from "node:test";
import { startServer, until, untilStatus } from "./harness.ts";

test("a created sandbox is deployed, complete and readable by name", async () => {
  await using server = await startServer();
  const created = await server.create({
    name: "first",
    metadata: { displayName: "The First", externalId: "Ext-1", labels: { team: "red" } },
    spec: { runtime: { memory: 512, ports: [{ target: 3000 }, { target: 8080 }], generation: "mk3" }, vpc: "default" },
  });
  assert.equal(created.status, 200);
  const { metadata, spec, status, state, errors, events } = created.body;
  assert.equal(metadata.name, "first");
  assert.equal(metadata.displayName, "The First");
  assert.equal(metadata.externalId, "Ext-1");
  assert.deepEqual(metadata.labels, { team: "red" });
  assert.equal(metadata.workspace, "main");
  assert.equal(metadata.createdBy, "admin");
  assert.equal(metadata.url, `${server.url}/run/main/sandboxes/first`);
  assert.equal(status, "DEPLOYED");
  assert.equal(state, "RUNNING");
  assert.deepEqual(errors, []);
  assert.deepEqual(
    events.map((event: { status: string }) => event.status),
    ["DEPLOYING", "DEPLOYED"],
  );
  assert.deepEqual(spec, {
    enabled: true,
    region: "local",
    vpc: "default",
    runtime: {
      image: "blaxel/base-image:latest",
      memory: 512,
      ports: [
        { target: 3000, protocol: "HTTP" },
        { target: 8080, protocol: "HTTP" },
      ],
    },
  });
  const [request] = server.host.requests;
  assert.equal(request?.memoryMb, 512);
  assert.match(request?.instanceId ?? "", /^[a-z0-9]{16}$/);
  const read = await server.call("GET", "/v0/sandboxes/first");
  assert.equal(read.status, 200);
  assert.deepEqual(read.body, created.body);
});

test("defaults fill in what is left out, the name included", async () => {
  await using server = await startServer();
  const { status, body } = await server.create();
  assert.equal(status, 200);
  assert.match(body.metadata.name, /^sandbox-[a-z0-9]{8}$/);
  assert.deepEqual(body.spec.runtime, { image: "blaxel/base-image:latest", memory: 4096 });
  assert.equal(server.host.requests[0]?.memoryMb, 4096);
});

test("a deleted sandbox frees its name at once, and its record stays readable as TERMINATED", async () => {
  await using server = await startServer();
  await server.create({ name: "again" });
  const deleted = await server.call("DELETE", "/v0/sandboxes/again");
  assert.equal(deleted.status, 200);
  assert.equal(deleted.body.status, "DELETING");
  assert.equal(await server.controlPlane.directory.findRoute("main", "again"), undefined);
  const gone = await untilStatus(server, "again", "TERMINATED");
  assert.equal(gone.status, 200);
  assert.equal(gone.body.state, undefined);
  assert.deepEqual(
    gone.body.events.map((event: { status: string }) => event.status),
    ["DEPLOYING", "DEPLOYED", "DELETING", "TERMINATED"],
  );
  assert.equal(server.host.instances.size, 0);
  assert.equal((await server.call("DELETE", "/v0/sandboxes/again")).status, 404);
  const second = await server.create({ name: "again" });
  assert.equal(second.body.status, "DEPLOYED");
  assert.equal((await server.call("GET", "/v0/sandboxes/again")).body.status, "DEPLOYED");
});

test("a name can be taken again while the host is still deleting its former sandbox", async () => {
  await using server = await startServer();
  await server.create({ name: "quick" });
  const release = Promise.withResolvers<void>();
  server.host.onDelete = () => release.promise;
  await server.call("DELETE", "/v0/sandboxes/quick");
  assert.equal((await server.call("GET", "/v0/sandboxes/quick")).body.status, "DELETING");
  assert.equal((await server.call("DELETE", "/v0/sandboxes/quick")).body.status, "DELETING");
  const second = await server.create({ name: "quick" });
  assert.equal(second.status, 200);
  release.resolve();
  await until("the former instance is gone", () => server.host.instances.size === 1 || undefined);
  assert.equal((await server.call("GET", "/v0/sandboxes/quick")).body.status, "DEPLOYED");
});

test("the record of a terminated sandbox goes when its retention is over", async () => {
  await using server = await startServer();
  await server.create({ name: "brief", spec: { lifecycle: { terminatedRetention: "0s" } } });
  await server.call("DELETE", "/v0/sandboxes/brief");
  await until(
    "it is not found",
    async () => (await server.call("GET", "/v0/sandboxes/brief")).status === 404 || undefined,
  );
  const listed = await server.call("GET", "/v0/sandboxes?showTerminated=true");
  await server.controlPlane.reconcile();
  assert.deepEqual((await server.call("GET", "/v0/sandboxes?showTerminated=true")).body, [], listed.text);
});

test("deleting a sandbox that is still being created ends the creation", async () => {
  await using server = await startServer();
  server.host.onCreate = (_request, signal) =>
    new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const creating = server.create({ name: "hasty" });
  await untilStatus(server, "hasty", "DEPLOYING");
  assert.equal((await server.call("DELETE", "/v0/sandboxes/hasty")).status, 200);
  const created = await creating;
  assert.equal(created.status, 409);
  assert.equal(created.body.code, "SANDBOX_DELETED");
  await untilStatus(server, "hasty", "TERMINATED");
  assert.equal(server.host.instances.size, 0);
});

test("createIfNotExist answers with the sandbox that has the name, and makes one otherwise", async () => {
  await using server = await startServer();
  const path = "/v0/sandboxes?createIfNotExist=true";
  const body = { metadata: { name: "shared" }, spec: {} };
  const [one, two] = await Promise.all([server.call("POST", path, { body }), server.call("POST", path, { body })]);
  assert.equal(one.status, 200);
  assert.equal(two.status, 200);
  assert.equal(one.body.metadata.createdAt, two.body.metadata.createdAt);
  assert.equal(server.host.requests.length, 1);
});

test("a failing host leaves no record, and the next attempt works", async () => {
  await using server = await startServer();
  server.host.onCreate = () => {
    throw new Error("disk /dev/secret-path is full");
  };
  const failed = await server.create({ name: "retry" });
  assert.equal(failed.status, 500);
  assert.equal(failed.body.code, "INTERNAL");
  assert.ok(!failed.text.includes("secret-path"));
  assert.equal((await server.call("GET", "/v0/sandboxes/retry")).status, 404);
  server.host.onCreate = () => undefined;
  assert.equal((await server.create({ name: "retry" })).status, 200);
});

test("a creation that the host never finishes is answered and undone", async () => {
  await using server = await startServer({ config: { createTimeoutMs: 30 } });
  server.host.onCreate = (_request, signal) =>
    new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const { status, body } = await server.create({ name: "slow" });
  assert.equal(status, 503);
  assert.equal(body.code, "CREATION_TIMEOUT");
  assert.equal((await server.call("GET", "/v0/sandboxes/slow")).status, 404);
});

test("a caller who hangs up does not leave a half-made sandbox", async () => {
  await using server = await startServer();
  const release = Promise.withResolvers<void>();
  server.host.onCreate = () => release.promise;
  const hangUp = new AbortController();
  const request = fetch(`${server.url}/v0/sandboxes`, {
    method: "POST",
    headers: { authorization: `Bearer ${server.apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ metadata: { name: "lonely" }, spec: {} }),
    signal: hangUp.signal,
  });
  await untilStatus(server, "lonely", "DEPLOYING");
  hangUp.abort();
  await assert.rejects(request);
  release.resolve();
  await untilStatus(server, "lonely", "DEPLOYED");
});
