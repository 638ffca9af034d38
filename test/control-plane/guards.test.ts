// Every declared operation is guarded: without a credential 401, without its scope 403, and what another workspace has looks exactly
// like what nobody has.
import assert from "node:assert/strict";
import { test } from "node:test";
import { controlPlaneOperations, type Operation } from "../../src/contract/operations.ts";
import { scopes } from "../../src/contract/scopes.ts";
import { type Answer, type Server, startServer } from "./harness.ts";

const parameterPattern = /:([A-Za-z]+)/g;

function fill(path: string, values: Readonly<Record<string, string>>): string {
  return `/v0${path.replaceAll(parameterPattern, (_, name: string) => encodeURIComponent(values[name] ?? "nothing"))}`;
}

function send(server: Server, { method, path, body }: Operation, key: string | null, values = {}): Promise<Answer> {
  const named: Record<string, string> = { workspaceName: "main", ...values };
  const last = [...path.matchAll(parameterPattern)].at(-1)?.[1];
  const name = named[last ?? ""] ?? "theirs";
  return server.call(method, fill(path, named), { key, ...(body && { body: bodyFor(path, name) }) });
}

const locationPolicy = {
  type: "location",
  resourceTypes: ["sandbox"],
  locations: [{ type: "location", name: "local" }],
};

/** One that every operation below the path can read: what is missing stays missing. */
function bodyFor(path: string, name: string): object {
  if (path === "/workspaces/availability") return { name };
  if (path.startsWith("/users")) return { email: "theirs@example.com", role: "member" };
  if (path.includes("/policies")) return { metadata: { name }, spec: locationPolicy };
  if (path.includes("/previews")) return { metadata: { name }, spec: { port: 3000 } };
  if (path.startsWith("/integrations")) return { metadata: { name }, spec: { integration: "openai" } };
  return { name, metadata: { name }, spec: {} };
}

test("every operation refuses a request without a credential, and one that nobody knows", async () => {
  await using server = await startServer();
  for (const operation of controlPlaneOperations) {
    for (const key of [null, "ck_nobody-knows-this-key"]) {
      const answer = await send(server, operation, key);
      assert.equal(answer.status, 401, `${operation.operationId}: ${answer.text}`);
      assert.match(answer.headers.get("www-authenticate") ?? "", /^Bearer/);
      assert.deepEqual(Object.keys(answer.body).includes("error"), true);
    }
  }
});

async function makeServiceAccount(server: Server, role: "admin" | "member", workspace = "main") {
  const headers = { "x-blaxel-workspace": workspace };
  const made = await server.call("POST", "/v0/service_accounts", { body: { name: `${role}-account`, role }, headers });
  assert.equal(made.status, 200, made.text);
  return made.body as { client_id: string; client_secret: string };
}

async function requestToken(
  server: Server,
  client: { client_id: string; client_secret: string },
  scope: readonly string[],
): Promise<string> {
  const body = { grant_type: "client_credentials", ...client, scope: scope.join(" ") };
  const answer = await server.call("POST", "/v0/oauth/token", { key: null, body });
  assert.equal(answer.status, 200, answer.text);
  return answer.body.access_token;
}

test("every operation refuses a token that has every scope but its own", async () => {
  await using server = await startServer();
  const client = await makeServiceAccount(server, "admin");
  const tokens = new Map<string, string>();
  for (const operation of controlPlaneOperations) {
    for (const missing of [operation.scope].flat()) {
      const token =
        tokens.get(missing) ??
        (await requestToken(
          server,
          client,
          scopes.filter((scope) => scope !== missing && scope !== "admin"),
        ));
      tokens.set(missing, token);
      const answer = await send(server, operation, token);
      assert.equal(answer.status, 403, `${operation.operationId} without ${missing}: ${answer.text}`);
    }
  }
});

test("every operation lets a token with its scope alone as far as the resource", async () => {
  await using server = await startServer();
  const client = await makeServiceAccount(server, "admin");
  for (const operation of controlPlaneOperations.filter(({ path }) => path.includes(":"))) {
    const token = await requestToken(server, client, [operation.scope].flat());
    const answer = await send(server, operation, token, { workspaceName: "nobodys" });
    // What is about the person who asks is not for programs.
    if (answer.status === 403 && answer.text.includes("Only a person")) continue;
    assert.ok(![401, 403, 500].includes(answer.status), `${operation.operationId}: ${answer.status} ${answer.text}`);
  }
});

test("what only administrators may do, members may not, whatever their scopes", async () => {
  await using server = await startServer();
  const client = await makeServiceAccount(server, "member");
  const made = await server.call("POST", `/v0/service_accounts/${client.client_id}/api_keys`, {
    body: { name: "key" },
  });
  const adminOnly = controlPlaneOperations.filter(({ role }) => role === "admin");
  assert.ok(adminOnly.length > 5);
  for (const operation of adminOnly) {
    const answer = await send(server, operation, made.body.apiKey);
    assert.equal(answer.status, 403, `${operation.operationId}: ${answer.text}`);
  }
});

/** What the workspace `main` has of everything that a path can name. */
async function fillWorkspace(server: Server): Promise<Record<string, string>> {
  const make = async (method: string, path: string, body?: object): Promise<Answer["body"]> => {
    const answer = await server.call(method, `/v0${path}`, body && { body });
    assert.equal(answer.status, 200, `${path}: ${answer.text}`);
    return answer.body;
  };
  const metadata = { name: "theirs" };
  await make("POST", "/sandboxes", { metadata: { ...metadata, externalId: "theirs" }, spec: {} });
  const tokens = "/sandboxes/theirs/previews/theirs/tokens";
  await make("POST", "/sandboxes/theirs/previews", { metadata, spec: { port: 3000 } });
  const { spec } = await make("POST", tokens, { metadata });
  await make("POST", "/integrations/connections", { metadata, spec: { integration: "github" } });
  await make("POST", "/volume_templates?upload=true&version=v1", { metadata, spec: { defaultSize: 100 } });
  await make("POST", "/policies", { metadata, spec: locationPolicy });
  const { client_id: clientId } = await make("POST", "/service_accounts", { name: "theirs" });
  const key = await make("POST", `/service_accounts/${clientId}/api_keys`, { name: "theirs" });
  await make("POST", "/users", { email: "theirs@example.com" });
  const set = await server.operate("PUT", "/v0/workspaces/main/features/theirs", { body: { enabled: true } });
  assert.equal(set.status, 200, set.text);
  return {
    sandboxName: "theirs",
    previewName: "theirs",
    tokenName: spec.token,
    externalId: "theirs",
    connectionName: "theirs",
    modelId: "theirs",
    volumeTemplateName: "theirs",
    versionName: "v1",
    clientId,
    apiKeyId: key.id,
    subOrEmail: "theirs@example.com",
    featureKey: "theirs",
    policyName: "theirs",
    workspaceName: "main",
    accountId: "main",
  };
}

/** Not of a workspace: the same for everyone. */
const common = new Set(["integrationName", "resourceType", "imageName", "tagName"]);

/** Without what answers say of the request itself. */
function anonymous(text: string, values: readonly string[]): string {
  return values
    .reduce((left, value) => left.replaceAll(value, "<name>"), text)
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "<time>");
}

test("what another workspace has is answered exactly like what nobody has", async () => {
  await using server = await startServer();
  const values = await fillWorkspace(server);
  const made = await server.call("POST", "/v0/workspaces", { body: { name: "elsewhere" } });
  assert.equal(made.status, 200, made.text);
  const headers = { "x-blaxel-workspace": "elsewhere" };
  const { client_id: clientId } = await makeServiceAccount(server, "admin", "elsewhere");
  const path = `/v0/service_accounts/${clientId}/api_keys`;
  const { apiKey } = (await server.call("POST", path, { body: { name: "key" }, headers })).body;
  const nobodys: Record<string, string> = Object.fromEntries(Object.keys(values).map((name) => [name, "nobodys"]));
  const walked: string[] = [];
  for (const operation of controlPlaneOperations) {
    const parameters = [...operation.path.matchAll(parameterPattern)].map(([, name]) => name!);
    if (parameters.length === 0 || parameters.some((name) => common.has(name))) continue;
    for (const name of parameters) {
      assert.ok(name in values, `${operation.operationId}: let this test make something for the parameter ${name}`);
    }
    const theirs = await send(server, operation, apiKey, values);
    const missing = await send(server, operation, apiKey, nobodys);
    assert.equal(theirs.status, missing.status, `${operation.operationId}: ${theirs.text} ${missing.text}`);
    const names = [...Object.values(values).sort((a, b) => b.length - a.length), "nobodys"];
    assert.equal(anonymous(theirs.text, names), anonymous(missing.text, names), operation.operationId);
    // A replacement makes what is missing; quotas are told of one's own workspace.
    const ownThing = ["upsertVolumeTemplate", "getQuotas"].includes(operation.operationId);
    assert.ok(theirs.status >= 400 || ownThing, `${operation.operationId}: ${theirs.text}`);
    walked.push(operation.operationId);
  }
  assert.ok(walked.length > 15, walked.join(", "));
  // Nothing of it has happened to what is theirs.
  for (const path of [
    "sandboxes/theirs",
    "sandboxes/theirs/previews/theirs",
    "integrations/connections/theirs",
    "volume_templates/theirs",
    "workspaces/main",
  ]) {
    assert.equal((await server.call("GET", `/v0/${path}`)).status, 200, path);
  }
});
