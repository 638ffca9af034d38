// Images as a workspace sees them: the platform's and its own, never those another workspace has had pulled; deleting what nobody uses.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Server, startServer } from "../control-plane/harness.ts";

const app = "registry.example.com/team/app";

function addPulled(server: Server, ...names: string[]): void {
  for (const name of names) {
    server.host.images.push({ name, kind: "pulled", updatedAt: "2026-02-02T00:00:00.000Z", sizeBytes: 50 });
  }
}

const createWith = (server: Server, image: string, name: string) =>
  server.create({ name, spec: { runtime: { image } } });

const pathOf = (repository: string) => `/v0/images/sandbox/${encodeURIComponent(repository)}`;

const names = (answer: { body: { metadata: { name: string } }[] }) => answer.body.map(({ metadata }) => metadata.name);

test("the platform's images are everybody's, pulled ones only of who had them pulled", async () => {
  await using server = await startServer();
  addPulled(server, `${app}:1`, `${app}:2`, "other.example.com/secret:1");
  assert.deepEqual(names(await server.call("GET", "/v0/images")), ["blaxel/base-image", "blaxel/py-app"]);
  assert.equal((await createWith(server, `${app}:1`, "a")).status, 200);
  assert.equal((await createWith(server, `${app}:2`, "b")).status, 200);
  const list = await server.call("GET", "/v0/images");
  assert.deepEqual(names(list), ["blaxel/base-image", "blaxel/py-app", app]);

  const { status, body } = await server.call("GET", pathOf(app));
  assert.equal(status, 200);
  assert.deepEqual(
    body.spec.tags.map(({ name, size }: Record<string, unknown>) => [name, size]),
    [
      ["1", 50],
      ["2", 50],
    ],
  );
  assert.deepEqual([body.spec.size, body.metadata.resourceType, body.metadata.workspace], [100, "sandbox", "main"]);
  assert.match(body.metadata.lastDeployedAt, /^2\d{3}-/);
  assert.deepEqual(list.body[2], body);
});

test("another workspace's image is not found, as one that does not exist", async () => {
  await using server = await startServer();
  addPulled(server, "other.example.com/secret:1");
  const foreign = await server.call("GET", pathOf("other.example.com/secret"));
  const unknown = await server.call("GET", pathOf("other.example.com/nothing"));
  assert.deepEqual([foreign.status, foreign.text], [404, unknown.text]);
  const removed = await server.call("DELETE", pathOf("other.example.com/secret"));
  assert.deepEqual([removed.status, removed.text], [404, unknown.text]);
  assert.equal(server.host.images.length, 3);
  assert.equal((await server.call("GET", "/v0/images/agent/blaxel%2Fbase-image")).status, 404);
  assert.equal((await server.call("GET", "/v0/images/sandboxes/blaxel%2Fbase-image")).status, 200);
});

test("an image in use is not deleted, nor is the platform's; an unused one is gone from list and host", async () => {
  await using server = await startServer();
  addPulled(server, `${app}:1`, `${app}:2`);
  await createWith(server, `${app}:1`, "a");
  await createWith(server, `${app}:2`, "b");
  const inUse = await server.call("DELETE", pathOf(app));
  assert.equal(inUse.status, 400);
  assert.match(inUse.body.message, /in use by 1 sandboxes: a/);
  assert.match((await server.call("DELETE", pathOf("blaxel/base-image"))).body.message, /belongs to the platform/);

  await server.call("DELETE", "/v0/sandboxes/a");
  const tag = await server.call("DELETE", `${pathOf(app)}/tags/1`);
  assert.deepEqual([tag.status, tag.body.spec.tags.map(({ name }: { name: string }) => name)], [200, ["1"]]);
  assert.equal((await server.call("DELETE", `${pathOf(app)}/tags/1`)).status, 404);
  assert.equal((await server.call("DELETE", `${pathOf(app)}/tags/2`)).status, 400);
  assert.equal(server.host.findImage(`${app}:1`), undefined);
  assert.ok(server.host.findImage(`${app}:2`));
});

test("cleaning up deletes what no sandbox of the workspace uses, and counts only its own", async () => {
  await using server = await startServer();
  addPulled(server, `${app}:1`, `${app}:2`, "other.example.com/nobodys:1");
  await createWith(server, `${app}:1`, "a");
  await createWith(server, `${app}:2`, "b");
  await server.call("DELETE", "/v0/sandboxes/a");
  const cleaned = await server.call("DELETE", "/v0/images");
  assert.deepEqual([cleaned.status, cleaned.body], [200, { deleted: 1, message: "1 image was deleted; 1 in use." }]);
  assert.deepEqual(
    server.host.images.filter(({ kind }) => kind === "pulled").map(({ name }) => name),
    [`${app}:2`],
  );
  assert.equal((await server.call("DELETE", "/v0/images")).body.deleted, 0);
});

test("what the host still needs stays on it, though the workspace has let go of it", async () => {
  await using server = await startServer();
  addPulled(server, `${app}:1`);
  await createWith(server, `${app}:1`, "a");
  await server.call("DELETE", "/v0/sandboxes/a");
  server.host.usedImages.add(`${app}:1`);
  assert.equal((await server.call("DELETE", pathOf(app))).status, 200);
  assert.ok(server.host.findImage(`${app}:1`));
  assert.equal((await server.call("GET", pathOf(app))).status, 404);
});

test("the use of an image survives a restart, and a repeated one is noted once a minute", async () => {
  await using server = await startServer();
  addPulled(server, `${app}:1`);
  for (const name of ["a", "b", "c"]) await createWith(server, `${app}:1`, name);
  const before = await server.call("GET", pathOf(app));
  await server.controlPlane[Symbol.asyncDispose]();
  await using again = await startServer({ dataDir: server.dataDir, apiKey: server.apiKey, host: server.host });
  assert.deepEqual((await again.call("GET", pathOf(app))).body, before.body);
});

test("the hub offers the platform's images and nothing else", async () => {
  await using server = await startServer({ settings: { CATNAP_MEMORY_MAX_MB: "1024" } });
  addPulled(server, `${app}:1`);
  await createWith(server, `${app}:1`, "a");
  const { status, body } = await server.call("GET", "/v0/sandbox/hub");
  assert.equal(status, 200);
  assert.deepEqual(
    body.map(({ name, image, memory }: Record<string, unknown>) => [name, image, memory]),
    [
      ["base-image", "blaxel/base-image:latest", 1024],
      ["py-app", "blaxel/py-app:latest", 1024],
    ],
  );
  assert.equal(body[0].description, "what blaxel/base-image:latest is");
});

test("every operation on images needs a credential", async () => {
  await using server = await startServer();
  for (const [method, path] of [
    ["GET", "/v0/images"],
    ["DELETE", "/v0/images"],
    ["GET", "/v0/images/sandbox/a"],
    ["DELETE", "/v0/images/sandbox/a"],
    ["DELETE", "/v0/images/sandbox/a/tags/b"],
    ["GET", "/v0/sandbox/hub"],
  ] as const) {
    assert.equal((await server.call(method, path, { key: null })).status, 401, `${method} ${path}`);
  }
});
