// Finding sandboxes by the id their owner gave them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Answer, startServer } from "./harness.ts";

test("the newest sandbox with an external id is found by it while it is not gone", async () => {
  await using server = await startServer();
  const find = (id: string, query = ""): Promise<Answer> =>
    server.call("GET", `/v0/sandboxes/by-external-id/${id}${query}`);
  await server.create({ name: "older", metadata: { externalId: "Twin-1" } });
  await server.create({ name: "newer", metadata: { externalId: "Twin-1" } });
  const found = await find("Twin-1");
  assert.equal(found.status, 200);
  assert.deepEqual(found.body, (await server.call("GET", "/v0/sandboxes/newer")).body);
  await server.call("DELETE", "/v0/sandboxes/newer");
  assert.equal((await find("Twin-1")).body.metadata.name, "older");
  await server.call("DELETE", "/v0/sandboxes/older");
  const gone = await find("Twin-1");
  assert.deepEqual([gone.status, gone.body.code], [404, 404]);
  assert.equal((await find("%00")).status, 404);
  assert.equal((await server.call("GET", "/v0/sandboxes/by-external-id/Twin-1", { key: null })).status, 401);
  await server.create({
    metadata: { externalId: "Hidden" },
    spec: { runtime: { envs: [{ name: "A", value: "v", secret: true }] } },
  });
  assert.equal((await find("Hidden")).body.spec.runtime.envs[0].value, "********");
  assert.equal((await find("Hidden", "?show_secrets=true")).body.spec.runtime.envs[0].value, "v");
});
