// A creation repeated with its Idempotency-Key has one effect and one answer.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Server, startServer, untilStatus } from "./harness.ts";
import { addPerson } from "./people.ts";

const keyed = (key: string) => ({ headers: { "idempotency-key": key } });

test("the same key and body give the same answer and one sandbox", async () => {
  await using server = await startServer();
  const first = await server.create({ metadata: { displayName: "once" } }, keyed("k-1"));
  const second = await server.create({ metadata: { displayName: "once" } }, keyed("k-1"));
  assert.equal(first.status, 200);
  assert.equal(second.status, 200);
  assert.deepEqual(second.body, first.body);
  assert.equal(server.host.requests.length, 1);
  const other = await server.create({ metadata: { displayName: "once" } }, keyed("k-2"));
  assert.notEqual(other.body.metadata.name, first.body.metadata.name);
});

test("the order of members and what is ignored do not make another body", async () => {
  await using server = await startServer();
  const send = (rawBody: string) =>
    server.call("POST", "/v0/sandboxes", {
      rawBody,
      headers: { "content-type": "application/json", ...keyed("order").headers },
    });
  const first = await send('{"metadata":{"labels":{"a":"1","b":"2"}},"spec":{"runtime":{"memory":256}}}');
  const second = await send(
    '{"spec":{"runtime":{"memory":256,"generation":"mk3"}},"metadata":{"labels":{"b":"2","a":"1"},"url":"x"}}',
  );
  assert.equal(first.status, 200);
  assert.deepEqual(second.body, first.body);
  assert.equal(server.host.requests.length, 1);
});

test("the same key with another body is refused", async () => {
  await using server = await startServer();
  await server.create({ name: "one" }, keyed("k"));
  for (const answer of [
    await server.create({ name: "two" }, keyed("k")),
    await server.call("POST", "/v0/sandboxes?createIfNotExist=true", {
      body: { metadata: { name: "one" }, spec: {} },
      ...keyed("k"),
    }),
  ]) {
    assert.equal(answer.status, 422);
    assert.equal(answer.body.code, "IDEMPOTENCY_KEY_REUSED");
  }
  assert.equal(server.host.requests.length, 1);
});

test("requests that arrive together share one creation, and another body with the key is refused meanwhile", async () => {
  await using server = await startServer();
  const release = Promise.withResolvers<void>();
  const reached = Promise.withResolvers<void>();
  server.host.onCreate = () => {
    reached.resolve();
    return release.promise;
  };
  const all = Array.from({ length: 8 }, () => server.create({}, keyed("together")));
  await reached.promise;
  assert.equal((await server.create({ name: "else" }, keyed("together"))).status, 422);
  release.resolve();
  const answers = await Promise.all(all);
  assert.ok(answers.every(({ status }) => status === 200));
  assert.equal(new Set(answers.map(({ text }) => text)).size, 1);
  assert.equal(server.host.requests.length, 1);
});

test("a creation that fails does not use the key up", async () => {
  await using server = await startServer();
  server.host.onCreate = () => {
    throw new Error("no room");
  };
  assert.equal((await server.create({ name: "later" }, keyed("k"))).status, 500);
  server.host.onCreate = () => undefined;
  assert.equal((await server.create({ name: "later" }, keyed("k"))).status, 200);
  const conflicting = await server.create({ name: "later" }, keyed("k2"));
  assert.equal(conflicting.status, 409);
  await server.call("DELETE", "/v0/sandboxes/later");
  assert.equal((await server.create({ name: "later" }, keyed("k2"))).status, 200);
});

test("a creation that is deleted before its end does not use the key up", async () => {
  await using server = await startServer();
  server.host.onCreate = (_request, signal) =>
    new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const creating = server.create({ name: "hasty" }, keyed("k"));
  await untilStatus(server, "hasty", "DEPLOYING");
  assert.equal((await server.call("DELETE", "/v0/sandboxes/hasty")).status, 200);
  assert.equal((await creating).status, 409);
  server.host.onCreate = () => undefined;
  assert.equal((await server.create({ name: "hasty" }, keyed("k"))).status, 200);
});

test("the answer is the first one even when the sandbox has gone since", async () => {
  await using server = await startServer();
  const first = await server.create({ name: "gone" }, keyed("k"));
  await server.call("DELETE", "/v0/sandboxes/gone");
  await untilStatus(server, "gone", "TERMINATED");
  const again = await server.create({ name: "gone" }, keyed("k"));
  assert.deepEqual(again.body, first.body);
  assert.equal(server.host.requests.length, 1);
});

test("answers survive a restart", async () => {
  await using server = await startServer();
  const first = await server.create({}, keyed("lasting"));
  const { dataDir, apiKey, host } = server;
  await using again = await startServer({ dataDir, apiKey, host });
  const second = await again.create({}, keyed("lasting"));
  assert.deepEqual(second.body, first.body);
  assert.equal(host.requests.length, 1);
});

test("keys are forgotten after their time", async () => {
  await using server = await startServer({ config: { idempotencyTtlMs: 0 } });
  const first = await server.create({}, keyed("k"));
  const second = await server.create({}, keyed("k"));
  assert.notEqual(second.body.metadata.name, first.body.metadata.name);
  await server.controlPlane.reconcile();
  assert.equal(await countKeys(server), 0);
});

test("keys belong to who sends them", async () => {
  await using server = await startServer();
  const { apiKey } = await addPerson(server, "mia");
  const first = await server.create({}, keyed("same"));
  const second = await server.create({}, { ...keyed("same"), key: apiKey });
  assert.equal(second.status, 200);
  assert.notEqual(second.body.metadata.name, first.body.metadata.name);
});

test("keys are 1 to 255 visible characters", async () => {
  await using server = await startServer();
  assert.equal((await server.create({}, keyed("k".repeat(255)))).status, 200);
  for (const key of ["k".repeat(256), "a b", ""]) {
    const answer = await server.create({}, keyed(key));
    assert.equal(answer.status, 400, key);
    assert.match(answer.body.message, /^Idempotency-Key must be/);
  }
});

async function countKeys(server: Server): Promise<number | undefined> {
  const [row] = await server.query<{ count: number }>("select count(*) as count from idempotency_keys");
  return row?.count;
}
