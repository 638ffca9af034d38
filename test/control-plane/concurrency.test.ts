// Fifty callers at the same moment: names, keys, quotas, status changes and counts come out as if they had come one after another.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Answer, type Server, startServer, until } from "./harness.ts";

const many = 50;

function together(call: (index: number) => Promise<Answer>): Promise<Answer[]> {
  return Promise.all(Array.from({ length: many }, (_, index) => call(index)));
}

function tally(answers: Answer[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

/** What triggers have counted is what there is. */
async function requireCounts(server: Server): Promise<void> {
  const counted =
    "select status, sum(count) as count from sandbox_counts group by status having sum(count) <> 0 order by status";
  const real = "select status, count(*) as count from sandboxes group by status order by status";
  assert.deepEqual(
    (await server.query(counted)).map((row) => ({ ...row })),
    (await server.query(real)).map((row) => ({ ...row })),
  );
}

async function requireUsage(server: Server): Promise<void> {
  const [usage] = await server.query<{ sandboxes: number; memory_mb: number }>(
    "select sandboxes, memory_mb from workspace_usage",
  );
  const [real] = await server.query<{ sandboxes: number; memory_mb: number }>(
    "select count(*) as sandboxes, coalesce(sum(memory_mb), 0) as memory_mb from sandboxes where holds_name = 1",
  );
  assert.deepEqual({ ...usage }, { ...real });
}

test("of fifty creations of one name one succeeds", async () => {
  await using server = await startServer();
  const answers = await together(() => server.create({ name: "one" }));
  assert.deepEqual(tally(answers), { 200: 1, 409: many - 1 });
  assert.equal(server.host.instances.size, 1);
  await requireCounts(server);
  await requireUsage(server);
});

test("fifty creations of one name that may exist are one sandbox for all", async () => {
  await using server = await startServer();
  const answers = await together(() =>
    server.call("POST", "/v0/sandboxes?createIfNotExist=true", { body: { metadata: { name: "shared" }, spec: {} } }),
  );
  assert.deepEqual(tally(answers), { 200: many });
  assert.equal(new Set(answers.map(({ body }) => body.metadata.createdAt)).size, 1);
  assert.equal(server.host.instances.size, 1);
});

test("fifty requests with one key, at two control planes of one database, make one sandbox", async () => {
  await using server = await startServer();
  const { dataDir, apiKey, host } = server;
  await using second = await startServer({ dataDir, apiKey, host });
  const headers = { "idempotency-key": "same" };
  const answers = await together((index) => (index % 2 === 0 ? server : second).create({}, { headers }));
  const counts = tally(answers);
  assert.equal((counts[200] ?? 0) + (counts[409] ?? 0), many, JSON.stringify(counts));
  assert.ok((counts[200] ?? 0) >= 1);
  assert.equal(new Set(answers.flatMap(({ status, body }) => (status === 200 ? [body.metadata.name] : []))).size, 1);
  assert.equal(host.instances.size, 1);
  await requireCounts(server);
});

test("a quota holds against fifty creations at once", async () => {
  await using server = await startServer({ config: { sandboxesMax: 7 } });
  const answers = await together((index) => server.create({ name: `box-${index}` }));
  assert.deepEqual(tally(answers), { 200: 7, 400: many - 7 });
  await requireCounts(server);
  await requireUsage(server);
});

test("a person has no more than a hundred keys, however many are asked for at once", async () => {
  await using server = await startServer();
  const ask = () =>
    together((index) => server.call("POST", "/v0/profile/api_keys", { body: { name: `key-${index}` } }));
  const answers = [...(await ask()), ...(await ask()), ...(await ask())];
  const [stored] = await server.query<{ count: number }>("select count(*) as count from api_keys");
  assert.equal(Number(stored?.count), 100);
  // One was there before.
  assert.deepEqual(tally(answers), { 200: 99, 409: 51 });
});

test("a workspace has no more than a hundred policies, however many are asked for at once", async () => {
  await using server = await startServer();
  const answers: Answer[] = [];
  for (const round of [1, 2, 3]) {
    const named = (index: number) => ({
      metadata: { name: `policy-${round}-${index}` },
      spec: { type: "location", resourceTypes: ["sandbox"], locations: [{ type: "country", name: "us" }] },
    });
    answers.push(...(await together((index) => server.call("POST", "/v0/policies", { body: named(index) }))));
  }
  const [stored] = await server.query<{ count: number }>("select count(*) as count from policies");
  assert.equal(Number(stored?.count), 100);
  assert.deepEqual(tally(answers), { 200: 100, 400: 50 });
});

test("fifty deletions of one sandbox delete it once", async () => {
  await using server = await startServer();
  await server.create({ name: "one" });
  const answers = await together(() => server.call("DELETE", "/v0/sandboxes/one"));
  for (const { status } of answers) assert.ok(status === 200 || status === 404, String(status));
  await until("it is gone", async () => (server.host.instances.size === 0 ? true : undefined));
  const { body } = await server.call("GET", "/v0/sandboxes/one");
  const entered = body.events.map(({ status }: { status: string }) => status);
  assert.equal(entered.filter((status: string) => status === "DELETING").length, 1);
  await requireUsage(server);
});

test("creating and deleting the same few names at once leaves every count right", async () => {
  await using server = await startServer();
  const answers = await together(async (index) => {
    const name = `box-${index % 5}`;
    const created = await server.create({ name });
    return index % 2 === 0 ? server.call("DELETE", `/v0/sandboxes/${name}`) : created;
  });
  for (const { status, text } of answers) assert.ok([200, 404, 409].includes(status), text);
  await until("deletions have ended", async () => {
    const { body } = await server.call("GET", "/v0/sandboxes?status=deleting,deploying");
    return body.length === 0 ? true : undefined;
  });
  await requireCounts(server);
  await requireUsage(server);
  const { body } = await server.call("GET", "/v0/sandboxes");
  assert.equal(server.host.instances.size, body.length);
});

test("a failed sandbox is found again or replaced, never both", async () => {
  await using server = await startServer();
  const names = Array.from({ length: 10 }, (_, index) => `box-${index}`);
  for (const name of names) await server.create({ name });
  const lost = [...server.host.instances.values()];
  for (const { instanceId } of lost) server.host.instances.delete(instanceId);
  await server.controlPlane.reconcile();
  for (const request of lost) server.host.instances.set(request.instanceId, request);
  const [answers] = await Promise.all([
    Promise.all(names.map((name) => server.create({ name }))),
    server.controlPlane.reconcile(),
  ]);
  for (const { status, text } of answers) assert.ok(status === 200 || status === 409, text);
  await server.controlPlane.reconcile();
  const holders = await server.query<{ name: string }>("select name from sandboxes where holds_name = 1 order by name");
  assert.deepEqual(
    holders.map(({ name }) => name),
    names,
  );
  await requireCounts(server);
  await requireUsage(server);
});
