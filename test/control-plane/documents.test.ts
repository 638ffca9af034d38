// The OpenAPI document and its page are open to everyone and tell nothing but the interface.
import assert from "node:assert/strict";
import { test } from "node:test";
import { controlPlaneOperations } from "../../src/contract/operations.ts";
import { startServer } from "./harness.ts";

test("the document is served without a credential, with this installation's address", async () => {
  await using server = await startServer();
  const answer = await server.call("GET", "/v0/openapi.json", { key: null });
  assert.equal(answer.status, 200);
  assert.equal(answer.body.openapi, "3.1.0");
  assert.deepEqual(answer.body.servers[0].url, `${server.config.origin}/v0`);
  const documented = Object.entries(answer.body.paths).flatMap(([path, methods]) =>
    Object.keys(methods as object).map((method) => `${method.toUpperCase()} ${path}`),
  );
  for (const { method, path } of controlPlaneOperations) {
    const documentedPath = path.replaceAll(/:([A-Za-z]+)/g, "{$1}");
    assert.ok(documented.includes(`${method} ${documentedPath}`), documentedPath);
    assert.ok(server.controlPlane.app.hasRoute({ method, url: `/v0${path}` }), `${method} ${path} is not served`);
  }
});

test("the page comes with everything it needs, runs nothing from elsewhere and cannot be framed", async () => {
  await using server = await startServer();
  const page = await server.call("GET", "/docs", { key: null });
  assert.equal(page.status, 200);
  assert.match(page.text, /<title>catnap API<\/title>/);
  const policy = page.headers.get("content-security-policy") ?? "";
  assert.match(policy, /default-src 'none'/);
  assert.match(policy, /frame-ancestors 'none'/);
  assert.doesNotMatch(policy, /https?:|\*/);
  const wanted = [...page.text.matchAll(/(?:src|href)="\.?\/?([^"]+)"/g)].map(([, path]) => path!);
  assert.ok(wanted.length > 3);
  for (const path of wanted) {
    const part = await server.call("GET", new URL(path, `${server.url}/docs/..`).pathname, { key: null });
    assert.equal(part.status, 200, path);
  }
  assert.equal((await server.call("GET", "/docs/json", { key: null })).body.info.title, "catnap control plane");
});

test("nothing else is to be had beside the page", async () => {
  await using server = await startServer();
  for (const path of ["/docs/static/../../package.json", "/docs/static/%2e%2e/package.json", "/docs/nothing"]) {
    assert.equal((await server.call("GET", path, { key: null })).status, 404, path);
  }
});
