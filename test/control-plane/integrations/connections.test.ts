// Integration connections over HTTP: what is stored, returned, replaced and refused.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Answer, type Server, startServer } from "../harness.ts";

const path = "/v0/integrations/connections";
const secretValue = "sk-zebra-4711-crossing";
const mask = "********";

function create(server: Server, name: string, spec: object = {}, metadata: object = {}): Promise<Answer> {
  return server.call("POST", path, { body: { metadata: { name, ...metadata }, spec } });
}

test("a connection is created, read, listed and deleted; values of its secret are masked everywhere", async () => {
  await using server = await startServer();
  const spec = {
    integration: "gmail",
    sandbox: true,
    config: { region: "eu" },
    secret: { CLIENT_SECRET: secretValue },
  };
  const metadata = { displayName: "Mail of Ann", externalId: "mail-1", labels: { team: "a" } };
  const created = await create(server, "mail", spec, metadata);
  assert.equal(created.status, 200, created.text);
  const { createdAt, updatedAt, createdBy, updatedBy, ...rest } = created.body.metadata;
  assert.deepEqual(rest, { name: "mail", ...metadata, workspace: "main" });
  assert.match(createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.deepEqual([updatedAt, updatedBy], [createdAt, createdBy]);
  assert.deepEqual(created.body.spec, { ...spec, secret: { CLIENT_SECRET: mask } });
  assert.deepEqual((await server.call("GET", `${path}/mail`)).body, created.body);
  await create(server, "plain");
  const listed = await server.call("GET", path, { headers: { "blaxel-version": "2026-04-28" } });
  assert.deepEqual(listed.body.map((item: { metadata: { name: string } }) => item.metadata.name).sort(), [
    "mail",
    "plain",
  ]);
  assert.deepEqual((await server.call("DELETE", `${path}/mail`)).body, created.body);
  assert.equal((await server.call("GET", `${path}/mail`)).status, 404);
  assert.equal((await server.call("DELETE", `${path}/mail`)).status, 404);
  assert.equal((await create(server, "mail")).status, 200);
});
