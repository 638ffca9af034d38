// Replacing a sandbox's settings: what keeps its instance, what gives it a new one, and that a rebuild ends whole or not at all.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Answer, Server } from "./harness.ts";
import { startServer, until, untilStatus } from "./harness.ts";

type Json = Record<string, unknown>;

function put(server: Server, name: string, body: unknown): Promise<Answer> {
  return server.call("PUT", `/v0/sandboxes/${name}`, { body });
}

async function get(server: Server, name: string): Promise<Answer["body"]> {
  return (await server.call("GET", `/v0/sandboxes/${name}`)).body;
}

async function instanceOf(server: Server, name: string): Promise<string | undefined> {
  return (await server.controlPlane.directory.findRoute("main", name))?.instanceId;
}

/** The whole object as it was answered, with the change in its spec's runtime. */
function withRuntime(sandbox: Answer["body"], runtime: Json): Json {
  return { ...sandbox, spec: { ...sandbox.spec, runtime: { ...sandbox.spec.runtime, ...runtime } } };
}

const waitsForAbort = (_request: unknown, signal: AbortSignal): Promise<void> =>
  new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

test("labels, display name, lifecycle, network, ports and enabled change under the running instance", async () => {
  await using server = await startServer();
  const { body: created } = await server.create({ name: "steady", metadata: { externalId: "ext" }, spec: {} });
  const before = await instanceOf(server, "steady");
  const changes: [string, Json, (sandbox: Answer["body"]) => unknown, unknown][] = [
    [
      "labels",
      { metadata: { ...created.metadata, labels: { a: "b" } } },
      ({ metadata }) => metadata.labels,
      { a: "b" },
    ],
    [
      "display name",
      { metadata: { ...created.metadata, displayName: "D" } },
      ({ metadata }) => metadata.displayName,
      "D",
    ],
    [
      "lifecycle",
      { spec: { ...created.spec, lifecycle: { terminatedRetention: "1h" } } },
      ({ spec }) => spec.lifecycle,
      { terminatedRetention: "1h" },
    ],
    ["lifecycle null", { spec: { ...created.spec, lifecycle: null } }, ({ spec }) => spec.lifecycle, undefined],
    ["ttl null", withRuntime(created, { ttl: null }), ({ spec }) => spec.runtime.ttl, undefined],
    [
      "network",
      { spec: { ...created.spec, network: { subnet: "default" } } },
      ({ spec }) => spec.network,
      { subnet: "default" },
    ],
    ["network empty", { spec: { ...created.spec, network: {} } }, ({ spec }) => spec.network, undefined],
    [
      "ports",
      withRuntime(created, { ports: [{ target: 3000 }] }),
      ({ spec }) => spec.runtime.ports,
      [{ target: 3000, protocol: "HTTP" }],
    ],
    ["enabled", { spec: { ...created.spec, enabled: false } }, ({ spec }) => spec.enabled, false],
  ];
  for (const [what, change, read, expected] of changes) {
    const { status, body, text } = await put(server, "steady", { ...created, ...change });
    assert.equal(status, 200, `${what}: ${text}`);
    assert.deepEqual(read(body), expected, what);
    assert.equal(body.status, "DEPLOYED", what);
    assert.deepEqual(body.events, created.events, `${what}: no new event`);
    assert.equal(body.metadata.externalId, "ext", what);
    assert.ok(body.metadata.updatedAt >= created.metadata.updatedAt);
    assert.deepEqual(await get(server, "steady"), body, what);
  }
  assert.equal(await instanceOf(server, "steady"), before);
  assert.equal(server.host.requests.length, 1);
  assert.deepEqual(server.host.deletions, []);
});

test("a disabled sandbox is enabled again", async () => {
  await using server = await startServer();
  const { body } = await server.create({ name: "switch", spec: { enabled: false } });
  assert.equal((await server.controlPlane.directory.findRoute("main", "switch"))?.enabled, false);
  await put(server, "switch", { ...body, spec: { ...body.spec, enabled: true } });
  assert.equal((await server.controlPlane.directory.findRoute("main", "switch"))?.enabled, true);
});

test("what is left out costs no files: image, memory, environment and external id stay, the rest goes", async () => {
  await using server = await startServer();
  await server.create({
    name: "terse",
    metadata: { externalId: "kept", labels: { a: "b" }, displayName: "gone" },
    spec: {
      runtime: {
        memory: 512,
        image: "blaxel/py-app:latest",
        envs: [{ name: "A", value: "1" }],
        ports: [{ target: 1 }],
      },
    },
  });
  const { status, body, text } = await put(server, "terse", { metadata: {}, spec: {} });
  assert.equal(status, 200, text);
  assert.equal(body.metadata.externalId, "kept");
  assert.equal(body.metadata.labels, undefined);
  assert.equal(body.metadata.displayName, undefined);
  assert.deepEqual(body.spec.runtime, {
    image: "blaxel/py-app:latest",
    memory: 512,
    envs: [{ name: "A", value: "1" }],
  });
  assert.equal(server.host.requests.length, 1);
});

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

test("secret values sent back as their mask are unchanged, and a mask reveals nothing", async () => {
  await using server = await startServer();
  const envs = [
    { name: "TOKEN", value: "real", secret: true },
    { name: "MODE", value: "fast" },
  ];
  const { body: created } = await server.create({ name: "masked", spec: { runtime: { envs } } });
  assert.equal((await put(server, "masked", created)).status, 200);
  assert.equal(server.host.requests.length, 1, "an echo is no change");
  const [token, mode] = created.spec.runtime.envs;
  const swapped = await put(server, "masked", withRuntime(created, { envs: [mode, token] }));
  assert.equal(swapped.status, 200);
  assert.equal(server.host.requests.length, 1, "the order is no change");
  const changed = await put(server, "masked", withRuntime(created, { envs: [token, { ...mode, value: "slow" }] }));
  assert.equal(changed.status, 200, changed.text);
  assert.deepEqual(server.host.requests.at(-1)?.environment, { TOKEN: "real", MODE: "slow" });
  const shown = await server.call("GET", "/v0/sandboxes/masked?show_secrets=true");
  assert.deepEqual(shown.body.spec.runtime.envs, [envs[0], { name: "MODE", value: "slow" }]);
  const opened = await put(server, "masked", withRuntime(created, { envs: [{ ...token, secret: false }] }));
  assert.equal(opened.status, 400);
  assert.match(opened.body.message, /^spec\.runtime\.envs\[0\]\.secret must stay true/);
  const renamed = await put(server, "masked", withRuntime(created, { envs: [{ ...token, name: "OTHER" }] }));
  assert.match(renamed.body.message, /^spec\.runtime\.envs\[0\]\.value must be the value itself/);
});

test("what cannot change is refused, and nothing happens", async () => {
  await using server = await startServer();
  const { body: created } = await server.create({
    name: "fixed",
    spec: { runtime: { extraArgs: { nfs: "disabled" } } },
  });
  const refused: [Json, RegExp][] = [
    [{ ...created, metadata: { ...created.metadata, name: "other" } }, /^metadata\.name must be fixed/],
    [withRuntime(created, { extraArgs: { nfs: "enabled" } }), /^spec\.runtime\.extraArgs\.nfs must stay/],
    [withRuntime(created, { extraArgs: { tun: "enabled" } }), /^spec\.runtime\.extraArgs\.tun must stay/],
    [
      { ...created, spec: { ...created.spec, network: { proxy: { bypass: ["a.b"] } } } },
      /^spec\.network\.proxy must stay/,
    ],
    [{ ...created, spec: { ...created.spec, region: "moon" } }, /^spec\.region must be local/],
    [withRuntime(created, { memory: 127 }), /^spec\.runtime\.memory must be at least 128/],
    [{ spec: {} }, /metadata is required/],
    [{ metadata: {} }, /spec is required/],
  ];
  for (const [body, message] of refused) {
    const answer = await put(server, "fixed", body);
    assert.equal(answer.status, 400, answer.text);
    assert.match(answer.body.message, message);
    assert.deepEqual([answer.body.code, answer.body.error], [400, "invalid_request"]);
  }
  assert.deepEqual(await get(server, "fixed"), created);
});

test("what a sandbox has stays allowed when the installation allows less by now", async () => {
  await using server = await startServer();
  const { body } = await server.create({ name: "large", spec: { runtime: { memory: 8192 } } });
  const { dataDir, apiKey, host } = server;
  await server.controlPlane[Symbol.asyncDispose]();
  const settings = { CATNAP_MEMORY_MAX_MB: "4096", CATNAP_REGION: "elsewhere" };
  await using again = await startServer({ dataDir, apiKey, host, settings });
  const labelled = await put(again, "large", { ...body, metadata: { ...body.metadata, labels: { a: "b" } } });
  assert.equal(labelled.status, 200, labelled.text);
  assert.deepEqual([labelled.body.spec, host.requests.length], [body.spec, 1]);
  const grown = await put(again, "large", withRuntime(body, { memory: 8193 }));
  assert.match(grown.body.message, /^spec\.runtime\.memory must be at most 8192$/);
});

test("only a caller who may update finds the sandbox, and only one that is there", async () => {
  await using server = await startServer();
  const { body } = await server.create({ name: "mine" });
  assert.equal((await put(server, "absent", body)).status, 404);
  assert.equal((await put(server, "Not%20a%20name", body)).status, 404);
  assert.equal((await server.call("PUT", "/v0/sandboxes/mine", { body, key: null })).status, 401);
  assert.equal((await server.call("PUT", "/v0/sandboxes/mine", { body, key: "nonsense" })).status, 401);
  server.host.onDelete = () => new Promise(() => undefined);
  await server.call("DELETE", "/v0/sandboxes/mine");
  const leaving = await put(server, "mine", body);
  assert.equal(leaving.status, 409);
  assert.match(leaving.body.message, /is DELETING/);
});

test("a sandbox that is still being created cannot be updated yet", async () => {
  await using server = await startServer();
  const release = Promise.withResolvers<void>();
  server.host.onCreate = () => release.promise;
  const creating = server.create({ name: "young" });
  const { body } = await untilStatus(server, "young", "DEPLOYING");
  assert.equal((await put(server, "young", body)).status, 409);
  release.resolve();
  assert.equal((await creating).status, 200);
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
