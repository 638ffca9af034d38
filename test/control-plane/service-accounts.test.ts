// Service accounts and API keys: made once, shown once, kept as hashes, limited to their workspace, refused as soon as revoked.
import assert from "node:assert/strict";
import { test } from "node:test";
import { generateSecret, hashSecret, matchesHash } from "../../src/control-plane/auth/secrets.ts";
import { startServer } from "./harness.ts";
import { addPerson, addWorkspace } from "./people.ts";

test("a service account's secret is shown once and only its hash is kept", async () => {
  await using server = await startServer();
  const created = await server.call("POST", "/v0/service_accounts", { body: { name: "CI", description: "builds" } });
  assert.equal(created.status, 200);
  const { client_id: clientId, client_secret: secret } = created.body;
  assert.match(secret, /^cs_[a-z0-9]{50}$/);
  assert.equal(created.body.role, "member");
  const { client_secret: _, ...shown } = created.body;
  assert.deepEqual((await server.call("GET", "/v0/service_accounts")).body, [shown]);
  assert.ok(!(await server.stored()).includes(secret));
  assert.ok(!server.logged().includes(secret));
  const { serviceAccounts } = server.controlPlane.identity;
  const { workspaceId } = server.controlPlane.bootstrap;
  const client = { id: clientId, clientId, name: "CI", workspaceId, workspace: "main", role: "member" };
  assert.deepEqual(await serviceAccounts.verifySecret(clientId, secret), client);
  assert.deepEqual(await serviceAccounts.findClient(clientId), client);
  assert.equal(await serviceAccounts.verifySecret(clientId, `${secret}x`), undefined);
  assert.equal(await serviceAccounts.verifySecret("a".repeat(16), secret), undefined);
  assert.equal(await serviceAccounts.verifySecret("a".repeat(16), ""), undefined);
  const changed = await server.call("PUT", `/v0/service_accounts/${clientId}`, { body: { name: "CD", role: "admin" } });
  assert.equal(changed.body.description, "builds");
  assert.deepEqual([changed.body.name, changed.body.role], ["CD", "admin"]);
  for (const body of [{}, { name: "" }, { name: "x".repeat(64) }, { name: "a", role: "owner" }, { name: "a\u0007" }]) {
    assert.equal((await server.call("POST", "/v0/service_accounts", { body })).status, 400, JSON.stringify(body));
  }
  assert.equal((await server.call("PUT", "/v0/service_accounts/unknown", { body: {} })).status, 404);
  const { revocations } = server.controlPlane.identity;
  const ended: string[] = [];
  revocations.subscribe(async (id) => void ended.push(id));
  assert.deepEqual((await server.call("DELETE", `/v0/service_accounts/${clientId}`)).body, changed.body);
  assert.deepEqual(ended, [clientId]);
  assert.equal(await serviceAccounts.verifySecret(clientId, secret), undefined);
  assert.equal((await server.call("DELETE", `/v0/service_accounts/${clientId}`)).status, 404);
});

test("a service account's key acts in its workspace and role, until it is revoked or the account deleted", async () => {
  await using server = await startServer();
  await addWorkspace(server, "other");
  const { body: account } = await server.call("POST", "/v0/service_accounts", { body: { name: "robot" } });
  const path = `/v0/service_accounts/${account.client_id}/api_keys`;
  const made = await server.call("POST", path, { body: { name: "one", expires_in: "30d" } });
  assert.equal(made.status, 200);
  const { apiKey, ...listed } = made.body;
  assert.equal(listed.sub, account.client_id);
  assert.equal(listed.sub_type, "service_account");
  assert.equal(listed.expires_in, "30d");
  assert.equal(Date.parse(listed.expiresAt) - Date.parse(listed.createdAt), 30 * 86_400_000);
  assert.deepEqual((await server.call("GET", path)).body, [listed]);
  assert.ok(!(await server.stored()).includes(apiKey));
  const as = (method: string, url: string, options = {}) => server.call(method, url, { key: apiKey, ...options });
  const sandbox = await as("POST", "/v0/sandboxes", { body: { metadata: { name: "made" }, spec: {} } });
  assert.equal(sandbox.body.metadata.createdBy, "robot");
  assert.equal((await as("GET", "/v0/sandboxes", { headers: { "x-blaxel-workspace": "main" } })).status, 200);
  assert.equal((await as("GET", "/v0/sandboxes", { headers: { "x-blaxel-workspace": "other" } })).status, 403);
  assert.equal((await as("GET", "/v0/sandboxes", { headers: { "x-blaxel-workspace": "nowhere" } })).status, 404);
  assert.deepEqual(
    (await as("GET", "/v0/workspaces")).body.map(({ name }: { name: string }) => name),
    ["main"],
  );
  assert.equal((await as("GET", "/v0/workspaces/other")).status, 404);
  for (const [method, url, body] of [
    ["POST", "/v0/workspaces", { name: "mine" }],
    ["GET", "/v0/profile/api_keys", undefined],
    ["POST", "/v0/profile/api_keys", {}],
    ["GET", "/v0/profile/invitations", undefined],
    ["POST", "/v0/workspaces/main/join", undefined],
    ["DELETE", "/v0/workspaces/main/leave", undefined],
    ["POST", path, {}],
    ["POST", "/v0/service_accounts", { name: "x" }],
    ["PUT", `/v0/service_accounts/${account.client_id}`, { role: "admin" }],
    ["GET", "/v0/users", undefined],
  ] as const) {
    assert.equal((await as(method, url, { body })).status, 403, `${method} ${url}`);
  }
  const other = await server.call("GET", path, { headers: { "x-blaxel-workspace": "other" } });
  assert.equal(other.status, 404);
  assert.equal((await server.call("DELETE", `${path}/unknown`)).status, 404);
  const second = await server.call("POST", path, { body: {} });
  assert.equal(second.body.expiresAt, undefined);
  assert.deepEqual((await server.call("DELETE", `${path}/${listed.id}`)).body.id, listed.id);
  assert.equal((await as("GET", "/v0/sandboxes")).status, 401);
  assert.equal((await server.call("GET", "/v0/sandboxes", { key: second.body.apiKey })).status, 200);
  await server.call("DELETE", `/v0/service_accounts/${account.client_id}`);
  assert.equal((await server.call("GET", "/v0/sandboxes", { key: second.body.apiKey })).status, 401);
  await assert.rejects(async () => server.controlPlane.directory.authorize(second.body.apiKey, "main"), {
    code: "unauthenticated",
  });
});

test("a key lives as long as it was asked to, at most ten years", async () => {
  await using server = await startServer();
  const make = (expires_in: unknown) => server.call("POST", "/v0/profile/api_keys", { body: { expires_in } });
  for (const text of ["1s", "24h", "1w", "30d", "3650d", "520w"]) assert.equal((await make(text)).status, 200, text);
  for (const text of ["0s", "0d", "3651d", "522w", "30", "d", "-1d", "1.5d", "1y", "1D", " 1d", "9".repeat(17), 30]) {
    const answer = await make(text);
    assert.equal(answer.status, 400, String(text));
    assert.match(answer.body.message, /expires_in/);
  }
});

test("a person's keys span the person's workspaces; each is the person's own business", async () => {
  await using server = await startServer();
  const mia = await addPerson(server, "mia");
  await addWorkspace(server, "lab", mia.apiKey);
  const inLab = { headers: { "x-blaxel-workspace": "lab" }, key: mia.apiKey };
  const made = await server.call("POST", "/v0/profile/api_keys", { ...inLab, body: { name: "lab key" } });
  assert.equal(made.status, 200);
  assert.equal(made.body.sub, mia.id);
  assert.equal(made.body.sub_type, "user");
  const key = made.body.apiKey;
  const own = await server.create({ name: "here" }, { key });
  assert.equal(own.body.metadata.workspace, "lab");
  const elsewhere = await server.call("GET", "/v0/sandboxes", { key, headers: { "x-blaxel-workspace": "main" } });
  assert.equal(elsewhere.status, 200);
  const ids = async (asking: string) =>
    (await server.call("GET", "/v0/profile/api_keys", { key: asking })).body.map(({ id }: { id: string }) => id);
  assert.deepEqual(await ids(key), [mia.keyId, made.body.id]);
  assert.ok(!(await ids(server.apiKey)).includes(made.body.id));
  assert.equal((await server.call("DELETE", `/v0/profile/api_keys/${made.body.id}`)).status, 404);
  assert.equal((await server.call("DELETE", `/v0/profile/api_keys/${made.body.id}`, { key })).status, 200);
  assert.equal((await server.call("GET", "/v0/sandboxes", { key })).status, 401);
});

test("without a workspace of its own a credential needs one named as soon as there are several", async () => {
  await using server = await startServer();
  const mia = await addPerson(server, "mia", { role: "none" });
  const ask = (headers = {}) => server.call("GET", "/v0/sandboxes", { key: mia.apiKey, headers });
  assert.equal((await ask()).status, 403);
  await addWorkspace(server, "lab", mia.apiKey);
  assert.equal((await ask()).status, 200);
  await addWorkspace(server, "den", mia.apiKey);
  const ambiguous = await ask();
  assert.equal(ambiguous.status, 400);
  assert.match(ambiguous.body.message, /Name a workspace/);
  assert.equal((await ask({ "x-blaxel-workspace": "den" })).status, 200);
  assert.equal((await server.call("GET", "/v0/workspaces", { key: mia.apiKey })).body.length, 2);
});

test("when a key was last used is known after a while", async () => {
  await using server = await startServer();
  const mia = await addPerson(server, "mia");
  await server.call("GET", "/v0/sandboxes", { key: mia.apiKey });
  assert.equal((await server.call("GET", "/v0/profile/api_keys", { key: mia.apiKey })).body[0].lastUsedAt, undefined);
  await server.controlPlane.identity.lastUse.write();
  const [listed] = (await server.call("GET", "/v0/profile/api_keys", { key: mia.apiKey })).body;
  assert.ok(Date.parse(listed.lastUsedAt) <= Date.now());
});

test("secrets are compared by hashes of equal length, whatever is given", () => {
  const secret = generateSecret("clientSecret");
  const hash = hashSecret(secret);
  assert.ok(matchesHash(secret, hash));
  for (const wrong of ["", "cs_", secret.slice(1), `${secret}x`, "\u0000", "ü".repeat(1000)]) {
    assert.ok(!matchesHash(wrong, hash));
  }
  assert.notEqual(generateSecret("apiKey"), generateSecret("apiKey"));
});
