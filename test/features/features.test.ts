// Features of a workspace: what callers see, what the operator sets, and who wins.
import assert from "node:assert/strict";
import { test } from "node:test";
import { startServer } from "../control-plane/harness.ts";

const settings = "/v0/workspaces/main/features";

test("callers see what is on, and nothing of what is off or unknown", async () => {
  await using server = await startServer();
  assert.deepEqual((await server.call("GET", "/v0/features")).body, { features: {} });
  const payload = { limit: 3, nested: { list: [1, null, "x"] } };
  const set = await server.operate("PUT", `${settings}/big-sandboxes`, {
    body: { enabled: true, variant: "large", payload },
  });
  assert.deepEqual(set.body, { enabled: true, variant: "large", payload, name: "big-sandboxes", source: "operator" });
  await server.operate("PUT", `${settings}/hidden`, { body: { enabled: false, variant: "secret-variant" } });

  const list = await server.call("GET", "/v0/features");
  assert.deepEqual([list.status, list.body], [200, { features: { "big-sandboxes": true } }]);
  const one = await server.call("GET", "/v0/features/big-sandboxes?account=any");
  const { evaluatedAt, ...rest } = one.body;
  assert.deepEqual(rest, { enabled: true, featureKey: "big-sandboxes", payload, variant: "large" });
  assert.ok(Math.abs(Date.parse(evaluatedAt) - Date.now()) < 60_000);

  const [off, unknown] = await Promise.all(["hidden", "never"].map((it) => server.call("GET", `/v0/features/${it}`)));
  assert.deepEqual([off!.status, off!.text], [404, unknown!.text]);
});

test("names of every object's own members are features like others", async () => {
  await using server = await startServer();
  for (const name of ["constructor", "toString", "hasOwnProperty"]) {
    assert.equal((await server.call("GET", `/v0/features/${name}`)).status, 404);
    assert.equal((await server.operate("PUT", `${settings}/${name}`, { body: { enabled: true } })).status, 200);
  }
  assert.deepEqual((await server.call("GET", "/v0/features")).body, {
    features: { constructor: true, hasOwnProperty: true, toString: true },
  });
  assert.equal((await server.call("GET", "/v0/features/__proto__")).status, 404);
});

test("what is set for one workspace says nothing about another, and survives a restart", async () => {
  await using server = await startServer();
  assert.equal(
    (await server.operate("PUT", "/v0/workspaces/nowhere/features/a", { body: { enabled: true } })).status,
    404,
  );
  await server.operate("PUT", `${settings}/kept`, { body: { enabled: true } });
  await server.controlPlane[Symbol.asyncDispose]();
  await using again = await startServer({ dataDir: server.dataDir, apiKey: server.apiKey });
  assert.deepEqual((await again.call("GET", "/v0/features")).body, { features: { kept: true } });
});

test("resetting forgets what was set, once", async () => {
  await using server = await startServer();
  await server.operate("PUT", `${settings}/a`, { body: { enabled: true } });
  const reset = await server.operate("DELETE", `${settings}/a`);
  assert.deepEqual([reset.status, reset.body], [200, { name: "a", enabled: false, source: "file default" }]);
  assert.equal((await server.operate("DELETE", `${settings}/a`)).status, 404);
  assert.deepEqual((await server.call("GET", "/v0/features")).body, { features: {} });
});

test("names, variants and payloads have limits", async () => {
  await using server = await startServer();
  const set = async (name: string, body: unknown) =>
    (await server.operate("PUT", `${settings}/${name}`, { body })).status;
  assert.equal(await set("a".repeat(128), { enabled: true }), 200);
  assert.equal(await set("a".repeat(129), { enabled: true }), 404);
  for (const name of ["9a", "a%20b", "-a", "a%2Fb", "%C3%A9"])
    assert.equal(await set(name, { enabled: true }), 404, name);
  assert.equal(await set("v", { enabled: true, variant: "v".repeat(128) }), 200);
  assert.equal(await set("v", { enabled: true, variant: "v".repeat(129) }), 400);
  const payload = (bytes: number) => ({ x: "y".repeat(bytes - '{"x":""}'.length) });
  assert.equal(await set("p", { enabled: true, payload: payload(16_384) }), 200);
  assert.equal(await set("p", { enabled: true, payload: payload(16_385) }), 400);
  assert.equal(await set("p", {}), 400);
  assert.equal(await set("p", { enabled: "yes" }), 400);
  assert.equal(await set("p", { enabled: true, payload: [1] }), 400);
});

test("reading features needs a credential, and the workspace must be the caller's", async () => {
  await using server = await startServer();
  for (const path of ["/v0/features", "/v0/features/a"]) {
    assert.equal((await server.call("GET", path, { key: null })).status, 401);
    assert.equal((await server.call("GET", `${path}?workspace=nowhere`)).status, 404);
  }
});
