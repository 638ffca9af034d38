// Environment variables that refer to secrets of connections: the host gets the value, nobody else ever does.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Answer, readAllFiles, type Server, startServer } from "./harness.ts";
import { addPerson, addWorkspace } from "./people.ts";

const value = "sk-heron-9127-lagoon";
const connections = "/v0/integrations/connections";
const reference = { name: "TOKEN", valueFrom: { secretKeyRef: { name: "mail", key: "CLIENT_SECRET" } } };

function connect(server: Server, secret: object = { CLIENT_SECRET: value }): Promise<Answer> {
  return server.call("POST", connections, { body: { metadata: { name: "mail" }, spec: { secret } } });
}

function envs(...list: unknown[]): object {
  return { runtime: { envs: list } };
}

test("a reference is resolved for the host and shown as a reference to everybody", async () => {
  await using server = await startServer();
  await connect(server);
  const plain = { name: "MODE", value: "fast" };
  const created = await server.create(
    { name: "user", spec: envs(reference, plain) },
    { headers: { "idempotency-key": "k" } },
  );
  assert.equal(created.status, 200, created.text);
  assert.deepEqual(created.body.spec.runtime.envs, [reference, plain]);
  assert.deepEqual(server.host.requests[0]?.environment, { TOKEN: value, MODE: "fast" });
  const shown = await server.call("GET", "/v0/sandboxes/user?show_secrets=true");
  assert.deepEqual(shown.body.spec.runtime.envs, [reference, plain]);
  const answers = [
    created,
    shown,
    await server.call("GET", "/v0/sandboxes"),
    await server.call("DELETE", "/v0/sandboxes/user"),
  ];
  for (const { text } of answers) assert.ok(!text.includes(value));
  assert.ok(!server.logged().includes(value), "found in the log");
  assert.ok(!readAllFiles(server.dataDir).includes(value), "found in a file");
});

test("what a reference refers to now reaches the sandbox with its next rebuild and not before", async () => {
  await using server = await startServer();
  await connect(server);
  const { body } = await server.create({ name: "user", spec: envs(reference) });
  await server.call("PUT", `${connections}/mail`, {
    body: { metadata: { name: "mail" }, spec: { secret: { CLIENT_SECRET: "rotated" } } },
  });
  assert.equal((await server.call("PUT", "/v0/sandboxes/user", { body })).status, 200);
  assert.equal(server.host.requests.length, 1, "an echo rebuilds nothing");
  const runtime = { ...body.spec.runtime, memory: 256 };
  await server.call("PUT", "/v0/sandboxes/user", { body: { ...body, spec: { ...body.spec, runtime } } });
  assert.deepEqual(server.host.requests[1]?.environment, { TOKEN: "rotated" });
});

test("a reference to nothing is refused by the field's name, and so is one of another shape", async () => {
  await using server = await startServer();
  await connect(server, { CLIENT_SECRET: value, LONG: "x".repeat(32_768) });
  const to = (name: unknown, key: unknown): object => ({ name: "A", valueFrom: { secretKeyRef: { name, key } } });
  const field = "spec\\.runtime\\.envs\\[1\\]";
  const refused: [object, RegExp][] = [
    [to("elsewhere", "CLIENT_SECRET"), new RegExp(`^${field}\\.valueFrom\\.secretKeyRef must refer to a secret`)],
    [to("mail", "OTHER"), new RegExp(`^${field}\\.valueFrom\\.secretKeyRef must refer to a secret`)],
    [to("Not A Name", "K"), new RegExp(`^${field}\\.valueFrom\\.secretKeyRef\\.name must be`)],
    [to("mail", ""), new RegExp(`^${field}\\.valueFrom\\.secretKeyRef\\.key must be`)],
    [to("mail", 5), new RegExp(`^${field}\\.valueFrom\\.secretKeyRef\\.key must be`)],
    [{ name: "A", valueFrom: {} }, new RegExp(`^${field}\\.valueFrom\\.secretKeyRef is required`)],
    [{ name: "A", valueFrom: "mail" }, new RegExp(`^${field}\\.valueFrom must be an object`)],
    [{ ...to("mail", "CLIENT_SECRET"), value: "v" }, new RegExp(`^${field}\\.value must be absent beside valueFrom`)],
  ];
  for (const [env, message] of refused) {
    const { status, body } = await server.create({ spec: envs({ name: "FIRST", value: "1" }, env) });
    assert.equal(status, 400, JSON.stringify(env));
    assert.match(body.message, message);
  }
  const many = Array.from({ length: 31 }, (_, index) => ({ ...to("mail", "LONG"), name: `N${index}` }));
  const tooLong = await server.create({ spec: envs(...many) });
  assert.match(tooLong.body.message, /^spec\.runtime\.envs must have at most 1000000 bytes in total/);
  assert.deepEqual((await server.call("GET", "/v0/sandboxes?showTerminated=true")).body, []);
  assert.equal(server.host.requests.length, 0);
});

test("only who may see connections adds a reference; one that is there stays with whoever updates", async () => {
  await using server = await startServer();
  await connect(server);
  const { apiKey: key } = await addPerson(server, "mia");
  const refused = await server.create({ name: "mias", spec: envs(reference) }, { key });
  assert.deepEqual([refused.status, refused.body.code], [403, "FORBIDDEN"]);
  assert.match(refused.body.message, /integrations:get/);
  const { body } = await server.create({ name: "shared", spec: envs(reference) });
  const update = (runtime: object): Promise<Answer> =>
    server.call("PUT", "/v0/sandboxes/shared", {
      body: { ...body, spec: { ...body.spec, runtime: { ...body.spec.runtime, ...runtime } } },
      key,
    });
  assert.equal((await update({})).status, 200);
  assert.equal((await update({ memory: 256 })).status, 200);
  assert.deepEqual(server.host.requests.at(-1)?.environment, { TOKEN: value });
  const other = { name: "X", valueFrom: { secretKeyRef: { name: "mail", key: "OTHER" } } };
  assert.equal((await update({ envs: [reference, other] })).status, 403);
});

test("another workspace's connection is none", async () => {
  await using server = await startServer();
  await connect(server);
  await addWorkspace(server, "other");
  const headers = { "x-blaxel-workspace": "other" };
  const answer = await server.create({ spec: envs(reference) }, { headers });
  assert.equal(answer.status, 400);
  assert.match(
    answer.body.message,
    /must refer to a secret of a connection: mail has no CLIENT_SECRET, or does not exist/,
  );
});

test("a connection that a sandbox refers to stays until none does", async () => {
  await using server = await startServer();
  await connect(server);
  const { body } = await server.create({ name: "user", spec: envs(reference) });
  const refused = await server.call("DELETE", `${connections}/mail`);
  assert.equal(refused.status, 409);
  assert.match(refused.body.message, /the sandbox user/);
  const runtime = { ...body.spec.runtime, envs: [] };
  await server.call("PUT", "/v0/sandboxes/user", { body: { ...body, spec: { ...body.spec, runtime } } });
  assert.equal((await server.call("DELETE", `${connections}/mail`)).status, 200);
  await connect(server);
  await server.create({ name: "brief", spec: envs(reference) });
  await server.call("DELETE", "/v0/sandboxes/brief");
  assert.equal((await server.call("DELETE", `${connections}/mail`)).status, 200, "a deleted sandbox needs it no more");
});
