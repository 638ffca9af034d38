// Policies for locations: written by administrators, and enforced where sandboxes are created.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type CallOptions, type Server, startServer } from "../control-plane/harness.ts";

const paged = { "blaxel-version": "2026-04-28" };

const policy = (name: string, locations: object[], spec: object = {}) => ({
  metadata: { name },
  spec: { type: "location", resourceTypes: ["sandbox"], locations, ...spec },
});

const here = { type: "location", name: "local" };
const elsewhere = { type: "location", name: "elsewhere" };

const post = (server: Server, body: unknown, options: CallOptions = {}) =>
  server.call("POST", "/v0/policies", { body, ...options });

test("a policy is created, read, replaced and deleted", async () => {
  await using server = await startServer();
  const created = await post(server, { ...policy("home", [here]), usage: { sandboxes: 99 }, extra: 1 });
  assert.equal(created.status, 200);
  assert.deepEqual(created.body.spec, { type: "location", resourceTypes: ["sandbox"], locations: [here] });
  assert.deepEqual([created.body.metadata.workspace, created.body.usage.sandboxes], ["main", 0]);
  assert.equal((await post(server, policy("home", [here]))).status, 409);
  // What was answered can be sent back whole.
  const replaced = await server.call("PUT", "/v0/policies/home", {
    body: { ...created.body, spec: { ...created.body.spec, locations: [elsewhere, here] } },
  });
  assert.equal(replaced.status, 200);
  assert.equal(replaced.body.metadata.createdAt, created.body.metadata.createdAt);
  assert.deepEqual((await server.call("GET", "/v0/policies/home")).body, replaced.body);
  assert.equal((await server.call("PUT", "/v0/policies/home", { body: policy("other", [here]) })).status, 400);
  assert.equal((await server.call("PUT", "/v0/policies/other", { body: policy("other", [here]) })).status, 404);
  const deleted = await server.call("DELETE", "/v0/policies/home");
  assert.deepEqual([deleted.status, deleted.body], [200, replaced.body]);
  for (const method of ["GET", "DELETE"]) assert.equal((await server.call(method, "/v0/policies/home")).status, 404);
  assert.equal((await server.call("GET", "/v0/policies/home/usages")).status, 404);
});

test("a policy that does not allow this place refuses every new sandbox, until it is gone", async () => {
  await using server = await startServer();
  await server.create({ name: "before" });
  await post(server, policy("home", [here]));
  await post(server, policy("away", [elsewhere]));
  for (const spec of [{}, { region: "local" }, { region: "auto" }]) {
    const refused = await server.create({ name: "after", spec });
    assert.equal(refused.status, 403);
    assert.deepEqual([refused.body.code, refused.body.details], ["POLICY_VIOLATION", { policy: "away" }]);
    assert.match(refused.body.message, /policy away allows no sandboxes in local/);
  }
  assert.equal(server.host.requests.length, 1);
  assert.equal((await server.call("GET", "/v0/sandboxes/before")).status, 200);
  const reused = await server.call("POST", "/v0/sandboxes?createIfNotExist=true", {
    body: { metadata: { name: "before" }, spec: {} },
  });
  assert.equal(reused.status, 200);
  const usages = await server.call("GET", "/v0/policies/away/usages");
  assert.deepEqual(usages.body, { agents: [], functions: [], jobs: [], models: [], sandboxes: [{ name: "before" }] });
  await server.call("DELETE", "/v0/policies/away");
  assert.equal((await server.create({ name: "after" })).status, 200);
});

test("countries and continents are those the operator has stated", async () => {
  await using server = await startServer({ settings: { CATNAP_REGION_COUNTRY: "de" } });
  await post(
    server,
    policy("p", [
      { type: "country", name: "DE" },
      { type: "continent", name: "na" },
    ]),
  );
  assert.equal((await server.create({ name: "a" })).status, 200);
  await post(server, policy("q", [{ type: "continent", name: "eu" }]));
  assert.equal((await server.create({ name: "b" })).status, 403);
});

test("a policy that would have no effect is refused with the reason", async () => {
  await using server = await startServer();
  for (const [spec, message] of [
    [{ type: "maxToken" }, /spec.type must be location/],
    [{ type: "flavor" }, /spec.type must be location/],
    [{ type: undefined }, /spec.type must be location/],
    [{ resourceTypes: [] }, /spec.resourceTypes must name/],
    [{ resourceTypes: ["sandbox", "agent"] }, /there is no agent/],
    [{ resourceTypes: ["pod"] }, /spec.resourceTypes\[0\]/],
    [{ locations: [] }, /at least one/],
    [{ locations: [{ type: "planet", name: "x" }] }, /spec.locations\[0\].type/],
    [{ locations: Array.from({ length: 101 }, () => here) }, /spec.locations/],
    [{ locations: [{ type: "location", name: "x".repeat(64) }] }, /spec.locations\[0\].name/],
    [{ flavors: [{ name: "t4" }] }, /spec.flavors/],
    [{ sandbox: true }, /spec.sandbox/],
  ] as const) {
    const answer = await post(server, policy("p", [here], spec));
    assert.equal(answer.status, 400, JSON.stringify(spec).slice(0, 80));
    assert.match(answer.body.message, message);
  }
  const full = policy(
    "p",
    Array.from({ length: 100 }, () => here),
    { flavors: [], sandbox: false },
  );
  assert.equal((await post(server, full)).status, 200);
  assert.equal((await post(server, { spec: full.spec })).status, 400);
});

test("the list is paged, searched and sorted; the older version answers with all of it", async () => {
  await using server = await startServer();
  for (const name of ["b", "a", "c", "dd"]) await post(server, policy(name, [here]));
  const list = async (query: string, headers = paged) => server.call("GET", `/v0/policies?${query}`, { headers });
  const namesOf = (data: { metadata: { name: string } }[]) => data.map(({ metadata }) => metadata.name);
  const first = (await list("sort=name:asc&limit=3")).body;
  assert.deepEqual([namesOf(first.data), first.meta.hasMore, first.meta.total], [["a", "b", "c"], true, 4]);
  const second = (await list(`sort=name:asc&limit=3&cursor=${first.meta.nextCursor}`)).body;
  assert.deepEqual([namesOf(second.data), second.meta], [["dd"], { hasMore: false, total: 4 }]);
  assert.deepEqual(namesOf((await list("")).body.data), ["dd", "c", "a", "b"]);
  assert.deepEqual(namesOf((await list("anchor=end&limit=1")).body.data), ["b"]);
  assert.deepEqual(namesOf((await list("q=DD")).body.data), ["dd"]);
  assert.deepEqual(namesOf((await list("q=d")).body.data).length, 4);
  assert.equal((await list(`sort=name:desc&cursor=${first.meta.nextCursor}`)).status, 400);
  assert.equal((await list("anchor=end&sort=name:asc")).status, 400);
  assert.equal((await list("cursor=x")).status, 400);
  assert.equal((await list("limit=0")).status, 400);
  assert.deepEqual(namesOf((await list("sort=name:asc", {} as typeof paged)).body), ["a", "b", "c", "dd"]);
});

test("a workspace has at most a hundred policies", async () => {
  await using server = await startServer();
  for (let count = 0; count < 100; count += 1)
    assert.equal((await post(server, policy(`p${count}`, [here]))).status, 200);
  const full = await post(server, policy("p100", [here]));
  assert.deepEqual([full.status, full.body.message], [400, "A workspace has at most 100 policies."]);
});

test("no credential is refused", async () => {
  await using server = await startServer();
  for (const [method, path] of [
    ["GET", "/v0/policies"],
    ["POST", "/v0/policies"],
    ["GET", "/v0/policies/a"],
    ["PUT", "/v0/policies/a"],
    ["DELETE", "/v0/policies/a"],
    ["GET", "/v0/policies/a/usages"],
  ] as const) {
    assert.equal((await server.call(method, path, { key: null })).status, 401, `${method} ${path}`);
  }
});
