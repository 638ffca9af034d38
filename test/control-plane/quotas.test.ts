// How much a workspace may have: counted exactly, whatever happens at once, and told to its members.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Answer, type Server, startServer, until } from "./harness.ts";

const mb = (memory: number): object => ({ runtime: { memory } });

async function setQuota(server: Server, resourceType: string, value: unknown): Promise<Answer["body"]> {
  const url = `/v0/workspaces/main/quotas/${resourceType}`;
  const { statusCode, payload } = await server.controlPlane.operatorApp.inject({
    method: "PUT",
    url,
    payload: { value },
  });
  return { status: statusCode, ...JSON.parse(payload) };
}

/** What is counted, and what there is: the same at any moment nothing is under way. */
async function usage(server: Server): Promise<{ sandboxes: number; memoryMb: number }> {
  const [counted] = await server.query("select sandboxes, memory_mb from workspace_usage");
  const { body } = await server.call("GET", "/v0/sandboxes?limit=200");
  const memories = body
    .filter(({ status }: { status: string }) => status !== "FAILED")
    .map(({ spec }: { spec: { runtime: { memory: number } } }) => spec.runtime.memory);
  const there = { sandboxes: memories.length, memoryMb: memories.reduce((sum: number, one: number) => sum + one, 0) };
  assert.deepEqual({ sandboxes: Number(counted?.sandboxes), memoryMb: Number(counted?.memory_mb) }, there);
  return there;
}

test("the number of sandboxes is limited, at the limit and not below it, and deleting makes room", async () => {
  await using server = await startServer({ settings: { CATNAP_SANDBOXES_MAX: "2" } });
  assert.equal((await server.create({ name: "one" })).status, 200);
  assert.equal((await server.create({ name: "two" })).status, 200);
  const third = await server.create({ name: "three" });
  assert.equal(third.status, 400);
  assert.equal(third.body.code, "QUOTA_EXCEEDED");
  assert.deepEqual(third.body.details, { resourceType: "sandboxes" });
  assert.match(third.body.message, /2 of at most 2 sandboxes/);
  assert.equal((await server.call("GET", "/v0/sandboxes/three")).status, 404, "no record is left");
  assert.equal((await server.create({ name: "two" })).status, 409, "a name that is taken is the better reason");
  await server.call("DELETE", "/v0/sandboxes/one");
  assert.equal((await server.create({ name: "three" })).status, 200);
  assert.equal(server.host.requests.length, 3, "the host was not asked for what did not fit");
  assert.equal((await usage(server)).sandboxes, 2);
});

test("memory is limited in all: by creations, by rebuilds, and given back by both", async () => {
  await using server = await startServer({ settings: { CATNAP_WORKSPACE_MEMORY_MAX_MB: "1024" } });
  assert.equal((await server.create({ name: "a", spec: mb(512) })).status, 200);
  const tooMuch = await server.create({ name: "b", spec: mb(513) });
  assert.deepEqual([tooMuch.status, tooMuch.body.code], [400, "QUOTA_EXCEEDED"]);
  assert.match(tooMuch.body.message, /512 of at most 1024 MB of memory; 513 MB more do not fit/);
  assert.equal((await server.create({ name: "b", spec: mb(512) })).status, 200);
  const put = (name: string, memory: number): Promise<Answer> =>
    server.call("PUT", `/v0/sandboxes/${name}`, { body: { metadata: {}, spec: mb(memory) } });
  const grown = await put("a", 513);
  assert.deepEqual([grown.status, grown.body.error], [400, "invalid_request"]);
  assert.match(grown.body.message, /of memory; 1 MB more do not fit/);
  assert.equal((await put("b", 256)).status, 200);
  assert.equal((await put("a", 768)).status, 200);
  assert.deepEqual(await usage(server), { sandboxes: 2, memoryMb: 1024 });
  server.host.onCreate = () => {
    throw new Error("no room");
  };
  assert.equal((await put("a", 128)).status, 500);
  assert.equal((await server.create({ name: "c", spec: mb(128) })).status, 400);
  await server.call("DELETE", "/v0/sandboxes/a");
  assert.equal((await server.create({ name: "c", spec: mb(128) })).status, 500);
  assert.deepEqual(await usage(server), { sandboxes: 1, memoryMb: 256 });
});

test("fifty creations at once do not pass a limit", async () => {
  await using server = await startServer({ settings: { CATNAP_SANDBOXES_MAX: "7" } });
  const answers = await Promise.all(Array.from({ length: 50 }, () => server.create({ spec: mb(128) })));
  const statuses = answers.map(({ status }) => status);
  assert.equal(statuses.filter((status) => status === 200).length, 7);
  assert.equal(statuses.filter((status) => status === 400).length, 43);
  assert.equal((await usage(server)).sandboxes, 7);
});

test("creations, rebuilds and deletions at once leave an exact count", async () => {
  await using server = await startServer({ settings: { CATNAP_WORKSPACE_MEMORY_MAX_MB: "2048" } });
  let failing = 0;
  server.host.onCreate = () => {
    if (failing++ % 5 === 4) throw new Error("every fifth one fails");
  };
  await Promise.all(
    Array.from({ length: 8 }, async (_, lane) => {
      for (let count = 0; count < 6; count++) {
        const name = `n${lane % 5}`;
        await server.create({ name, spec: mb(128 + lane) });
        await server.call("PUT", `/v0/sandboxes/${name}`, { body: { metadata: {}, spec: mb(256 + count) } });
        if (count % 2 === 0) await server.call("DELETE", `/v0/sandboxes/${name}`);
      }
    }),
  );
  await usage(server);
  for (const name of ["n0", "n1", "n2", "n3", "n4"]) await server.call("DELETE", `/v0/sandboxes/${name}`);
  assert.deepEqual(await usage(server), { sandboxes: 0, memoryMb: 0 });
  await until("no instance is left", () => server.host.instances.size === 0 || undefined);
});

test("what the host loses is not counted, and is again when it is found", async () => {
  await using server = await startServer();
  await server.create({ name: "lost", spec: mb(300) });
  const [[id, request] = assert.fail()] = server.host.instances;
  server.host.instances.delete(id);
  await server.controlPlane.reconcile();
  assert.deepEqual(await usage(server), { sandboxes: 0, memoryMb: 0 });
  server.host.instances.set(id, request);
  await server.controlPlane.reconcile();
  assert.deepEqual(await usage(server), { sandboxes: 1, memoryMb: 300 });
});

test("the operator gives a workspace quotas of its own, within bounds", async () => {
  await using server = await startServer();
  assert.deepEqual(await setQuota(server, "sandboxes", 1), {
    status: 200,
    resourceType: "sandboxes",
    value: 1,
    source: "operator",
  });
  await server.create({ name: "only" });
  assert.equal((await server.create({ name: "more" })).body.code, "QUOTA_EXCEEDED");
  await setQuota(server, "sandboxes", 0);
  const echo = { metadata: {}, spec: mb(8192) };
  assert.equal((await server.call("PUT", "/v0/sandboxes/only", { body: echo })).status, 200, "what is there may grow");
  for (const [type, value] of [
    ["sandboxes", -1],
    ["sandboxes", 1.5],
    ["memory", 1_000_000_000_001],
    ["memory", "5"],
  ] as const) {
    assert.equal((await setQuota(server, type, value)).status, 400, `${type} ${value}`);
  }
  assert.equal((await setQuota(server, "memory", 1_000_000_000_000)).status, 200);
  assert.equal((await setQuota(server, "cpu", 1)).status, 404);
  await setQuota(server, "terminatedRetention", 0);
  await setQuota(server, "sandboxes", 5);
  await server.create({ name: "brief", spec: { lifecycle: { terminatedRetention: "7d" } } });
  await server.call("DELETE", "/v0/sandboxes/brief");
  await until(
    "it is gone at once",
    async () => (await server.call("GET", "/v0/sandboxes/brief")).status === 404 || undefined,
  );
});

test("an account's quotas are told to the members of its workspace only", async () => {
  await using server = await startServer();
  const [{ id } = assert.fail()] = await server.query("select id from workspaces");
  const expected = [
    { resourceType: "sandboxes", value: 10_000 },
    { resourceType: "memory", value: 40_960_000 },
    { resourceType: "terminatedRetention", value: 604_800 },
  ];
  for (const account of ["main", String(id)]) {
    const answer = await server.call("GET", `/v0/quotas/account/${account}`);
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.body, expected);
  }
  assert.equal((await server.call("GET", "/v0/quotas/account/elsewhere")).status, 404);
  assert.equal((await server.call("GET", "/v0/quotas/account/main", { key: null })).status, 401);
});
