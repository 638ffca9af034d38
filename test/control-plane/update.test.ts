// Replacing a sandbox's settings: what changes under the running instance, what stays, and what is refused.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Answer, startServer, untilStatus } from "./harness.ts";
import { get, instanceOf, type Json, put, withRuntime } from "./updating.ts";

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
