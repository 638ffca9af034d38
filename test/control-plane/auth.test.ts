// Who may ask what: credentials in both headers, workspaces, roles, revocation.
import assert from "node:assert/strict";
import { test } from "node:test";
import { controlPlaneOperations } from "../../src/contract/operations.ts";
import { startServer } from "./harness.ts";
import { addPerson, addWorkspace, expireKey, firstUserId } from "./people.ts";

test("no credential is 401 with a challenge, in front of every declared operation", async () => {
  await using server = await startServer();
  for (const { method, path } of controlPlaneOperations) {
    const url = `/v0${path.replaceAll(/:\w+/g, "any")}`;
    const answer = await server.call(method, url, { key: null });
    assert.equal(answer.status, 401, `${method} ${path}`);
    assert.match(answer.headers.get("www-authenticate") ?? "", /^Bearer/);
  }
});

test("only a known key is accepted, in either header", async () => {
  await using server = await startServer();
  const get = (headers: Record<string, string>) => server.call("GET", "/v0/sandboxes", { key: null, headers });
  const { apiKey } = server;
  assert.match(apiKey, /^ck_[a-z0-9]{50}$/);
  assert.equal((await get({ authorization: `Bearer ${apiKey}` })).status, 200);
  assert.equal((await get({ authorization: `bearer ${apiKey}` })).status, 200);
  assert.equal((await get({ "x-blaxel-authorization": `Bearer ${apiKey}` })).status, 200);
  assert.equal(
    (await get({ "x-blaxel-authorization": `Bearer ${apiKey}`, authorization: "Basic cHJveHk6eA==" })).status,
    200,
  );
  assert.equal((await get({ authorization: apiKey })).status, 401);
  assert.equal((await get({ authorization: "Bearer " })).status, 401);
  assert.equal((await get({ authorization: `Basic ${apiKey}` })).status, 401);
  assert.equal((await get({ authorization: `Bearer ${apiKey}x` })).status, 401);
  assert.equal((await get({ authorization: `Bearer ${apiKey.slice(0, -1)}` })).status, 401);
  assert.equal((await get({ authorization: `Bearer ck_${"a".repeat(50)}` })).status, 401);
  assert.equal((await get({ authorization: `Bearer ${"a".repeat(9_000)}` })).status, 401);
});

test("the workspace may be named by header or query: unknown is 404, foreign is 403", async () => {
  await using server = await startServer();
  const { apiKey: memberKey } = await addPerson(server, "mia");
  const otto = await addPerson(server, "otto", { role: "none" });
  await addWorkspace(server, "other", otto.apiKey);
  const get = (path: string, headers: Record<string, string>, key = server.apiKey) =>
    server.call("GET", path, { key, headers });
  assert.equal((await get("/v0/sandboxes", { "x-blaxel-workspace": "main" })).status, 200);
  assert.equal((await get("/v0/sandboxes?workspace=main", {})).status, 200);
  assert.equal((await get("/v0/sandboxes?workspace=nowhere", {})).status, 404);
  assert.equal((await get("/v0/sandboxes", { "x-blaxel-workspace": "No Where!" })).status, 404);
  const foreign = await get("/v0/sandboxes", { "x-blaxel-workspace": "other" });
  assert.equal(foreign.status, 403);
  assert.equal(foreign.body.error, "forbidden");
  assert.equal((await get("/v0/sandboxes?workspace=other", {}, memberKey)).status, 403);
});

test("a key of one person reaches every workspace the person belongs to, and nothing of the others", async () => {
  await using server = await startServer();
  await addWorkspace(server, "other");
  await server.create({ name: "mine" });
  const headers = { "x-blaxel-workspace": "other" };
  assert.deepEqual((await server.call("GET", "/v0/sandboxes", { headers })).body, []);
  assert.equal((await server.call("GET", "/v0/sandboxes/mine", { headers })).status, 404);
  const twin = await server.create({ name: "mine" }, { headers });
  assert.equal(twin.status, 200);
  assert.equal(twin.body.metadata.workspace, "other");
  assert.equal((await server.call("DELETE", "/v0/sandboxes/mine", { headers })).status, 200);
  assert.equal((await server.call("GET", "/v0/sandboxes/mine")).body.status, "DEPLOYED");
  const idle = await server.call("GET", "/v0/sandboxes/mine", { headers: { "x-blaxel-workspace": "main" } });
  assert.equal(idle.body.metadata.workspace, "main");
});

test("members may work with sandboxes but not see secret values", async () => {
  await using server = await startServer();
  const { apiKey: key } = await addPerson(server, "mia");
  const created = await server.create({ name: "theirs" }, { key });
  assert.equal(created.status, 200);
  assert.equal(created.body.metadata.createdBy, "mia");
  assert.equal((await server.call("GET", "/v0/sandboxes/theirs", { key })).status, 200);
  assert.equal((await server.call("GET", "/v0/sandboxes/theirs?show_secrets=true", { key })).status, 403);
  assert.equal((await server.call("GET", "/v0/sandboxes/theirs?show_secrets=true")).status, 200);
  assert.equal((await server.call("DELETE", "/v0/sandboxes/theirs", { key })).status, 200);
});

test("a revoked key is refused from the moment the revocation is confirmed", async () => {
  await using server = await startServer();
  const { apiKeys } = server.controlPlane.identity;
  const { workspaceId } = server.controlPlane.bootstrap;
  const owner = { user_id: await firstUserId(server) };
  const { id, apiKey } = await apiKeys.create({ owner, workspaceId, createdBy: "admin", granted: ["admin"] }, {});
  assert.equal((await server.call("GET", "/v0/sandboxes", { key: apiKey })).status, 200);
  assert.equal(await server.controlPlane.directory.findWorkspaceById(workspaceId), "main");
  await apiKeys.revoke(owner, id);
  assert.equal((await server.call("GET", "/v0/sandboxes", { key: apiKey })).status, 401);
  await assert.rejects(async () => server.controlPlane.directory.authorize(apiKey, "main"), {
    code: "unauthenticated",
  });
  await assert.rejects(apiKeys.revoke(owner, id), { code: "not_found" });
  assert.equal((await server.call("GET", "/v0/sandboxes")).status, 200);
});

test("an expired key is refused", async () => {
  await using server = await startServer();
  const { apiKeys } = server.controlPlane.identity;
  const owner = { user_id: await firstUserId(server) };
  const order = {
    owner,
    workspaceId: server.controlPlane.bootstrap.workspaceId,
    createdBy: "admin",
    granted: ["admin"],
  };
  const past = await apiKeys.create(order, { expires_in: "1s" });
  const future = await apiKeys.create(order, { expires_in: "1w" });
  await expireKey(server, past.id);
  assert.equal((await server.call("GET", "/v0/sandboxes", { key: past.apiKey })).status, 401);
  assert.equal((await server.call("GET", "/v0/sandboxes", { key: future.apiKey })).status, 200);
});

test("keys are stored as hashes only, and the first one is handed out once", async () => {
  await using server = await startServer();
  await server.create({ name: "one" });
  const { dataDir, apiKey, host, controlPlane } = server;
  assert.ok(!(await server.stored()).includes(apiKey));
  assert.ok(!server.logged().includes(apiKey));
  assert.match(controlPlane.bootstrap.workspaceId, /^[a-z0-9]{9}$/);
  await using again = await startServer({ dataDir, apiKey, host });
  assert.equal(again.controlPlane.bootstrap.apiKey, undefined);
  assert.equal(again.controlPlane.bootstrap.workspaceId, controlPlane.bootstrap.workspaceId);
  assert.equal((await again.call("GET", "/v0/sandboxes/one")).status, 200);
});

test("the directory tells the edge who asks and where a sandbox is", async () => {
  await using server = await startServer();
  const { directory, bootstrap } = server.controlPlane;
  await server.create({ name: "here" });
  await server.create({ name: "closed", spec: { enabled: false } });
  const principal = await directory.authorize(server.apiKey, "main");
  assert.deepEqual(principal, {
    id: principal.id,
    kind: "user",
    role: "admin",
    workspace: "main",
    scopes: ["admin"],
  });
  const [here, closed] = server.host.requests;
  assert.deepEqual(await directory.findRoute("main", "here"), {
    instanceId: here?.instanceId,
    status: "DEPLOYED",
    enabled: true,
  });
  assert.deepEqual(await directory.findRoute("main", "closed"), {
    instanceId: closed?.instanceId,
    status: "DEPLOYED",
    enabled: false,
  });
  assert.equal(await directory.findRoute("other", "here"), undefined);
  assert.equal(await directory.findRoute("main", "nobody"), undefined);
  assert.equal(await directory.findWorkspaceById(bootstrap.workspaceId), "main");
  assert.equal(await directory.findWorkspaceById("zzzzzzzzz"), undefined);
});
