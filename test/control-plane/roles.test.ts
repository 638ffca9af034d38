// What every scope allows in every role, for API keys and for tokens; what tokens may not do is refused at once.
import assert from "node:assert/strict";
import { test } from "node:test";
import { controlPlaneOperations } from "../../src/contract/operations.ts";
import { adminScope, scopes } from "../../src/contract/scopes.ts";
import { covers, effectiveScopes, roles, scopesOfRole } from "../../src/control-plane/auth/scopes.ts";
import type { TokenClaims } from "../../src/control-plane/auth/service.ts";
import { type Server, startServer } from "./harness.ts";
import { addPerson, addWorkspace } from "./people.ts";

const adminOnly = (scope: string): boolean =>
  scope === "admin" || /^(policies|integrations):|^workspaces:(update|delete|invite|remove)$/.test(scope);

test("every scope, in every role, granted alone, granted by admin and not granted", () => {
  assert.equal(new Set(scopes).size, scopes.length);
  for (const scope of scopes) {
    for (const role of roles) {
      const mayEver = role === "admin" || !adminOnly(scope);
      assert.equal(covers(scopesOfRole(role), scope), mayEver, `${role} ${scope}`);
      assert.equal(covers(effectiveScopes([adminScope], role), scope), mayEver, `${role} admin ${scope}`);
      assert.equal(covers(effectiveScopes([scope], role), scope), mayEver, `${role} alone ${scope}`);
      assert.equal(covers(effectiveScopes([], role), scope), false);
      const others = scopes.filter((each) => each !== scope && each !== adminScope);
      assert.equal(covers(effectiveScopes(others, role), scope), false, `${role} others ${scope}`);
    }
  }
});

test("every operation needs scopes that exist, and what is only for administrators is not a member's", () => {
  for (const { operationId, scope } of controlPlaneOperations) {
    for (const each of [scope].flat()) assert.ok(scopes.includes(each), `${operationId}: ${each}`);
  }
});

/** Tokens by their text, in place of signed ones. */
function acceptTokens(server: Server, tokens: Record<string, TokenClaims>): void {
  server.controlPlane.identity.tokens.verify = async (token) => tokens[token];
}

const token = (name: string): string => `${name}.${name}.${name}`;

test("in front of every operation stands its scope and its role", async () => {
  await using server = await startServer();
  const mia = await addPerson(server, "mia", { role: "member" });
  const ada = await addPerson(server, "ada", { role: "admin" });
  const claims = { kind: "user", expiresAt: Date.now() + 600_000 } as const;
  for (const { operationId, method, path, scope, role } of controlPlaneOperations) {
    const url = `/v0${path.replace(":workspaceName", "main").replaceAll(/:\w+/g, "any")}`;
    const wanted = [scope].flat();
    acceptTokens(server, {
      [token("without")]: {
        ...claims,
        subjectId: ada.id,
        tokenId: "a",
        scopes: scopes.filter((each) => each !== adminScope && !wanted.includes(each)),
      },
      [token("member")]: { ...claims, subjectId: mia.id, tokenId: "b", scopes },
    });
    if (!wanted.includes(adminScope)) {
      const without = await server.call(method, url, { key: token("without") });
      assert.equal(without.status, 403, `${operationId} without its scope`);
      assert.ok(without.body.message.includes(wanted[0]!), operationId);
    }
    if (role === "admin" || wanted.some(adminOnly)) {
      assert.equal(
        (await server.call(method, url, { key: token("member") })).status,
        403,
        `${operationId} as a member`,
      );
    }
  }
});

test("a token acts where its owner belongs, with no more than it was granted, until it ends", async () => {
  await using server = await startServer();
  const ada = await addPerson(server, "ada", { role: "admin" });
  const claims: TokenClaims = {
    subjectId: ada.id,
    kind: "user",
    scopes: ["sandboxes:list"],
    tokenId: "t1",
    expiresAt: Date.now() + 600_000,
  };
  const key = token("t");
  acceptTokens(server, { [key]: claims });
  const list = (headers = {}) => server.call("GET", "/v0/sandboxes", { key, headers });
  assert.equal((await list()).status, 200);
  assert.equal((await server.create({ name: "x" }, { key })).status, 403);
  assert.deepEqual((await server.controlPlane.directory.authorize(key, "main")).scopes, ["sandboxes:list"]);
  await addWorkspace(server, "lab", ada.apiKey);
  assert.equal((await list()).status, 400);
  assert.equal((await list({ "x-blaxel-workspace": "lab" })).status, 200);
  acceptTokens(server, { [key]: { ...claims, expiresAt: Date.now() - 1 } });
  assert.equal((await list()).status, 401);
  acceptTokens(server, { [key]: { ...claims, subjectId: "nobody" } });
  assert.equal((await list()).status, 401);
  acceptTokens(server, {});
  assert.equal((await list()).status, 401);
});

test("a key made with a limited token is as limited, and a service account's token ends with it", async () => {
  await using server = await startServer();
  const ada = await addPerson(server, "ada", { role: "admin" });
  const robot = await server.call("POST", "/v0/service_accounts", { body: { name: "robot" } });
  const common = { expiresAt: Date.now() + 600_000 };
  acceptTokens(server, {
    [token("w")]: { ...common, subjectId: ada.id, kind: "user", scopes: ["apiKey:write"], tokenId: "w" },
    [token("r")]: {
      ...common,
      subjectId: robot.body.client_id,
      kind: "service_account",
      scopes: ["admin"],
      tokenId: "r",
    },
  });
  const made = await server.call("POST", "/v0/profile/api_keys", { key: token("w"), body: {} });
  assert.equal(made.status, 200);
  assert.equal((await server.call("GET", "/v0/sandboxes", { key: made.body.apiKey })).status, 403);
  assert.equal((await server.call("POST", "/v0/profile/api_keys", { key: made.body.apiKey, body: {} })).status, 200);
  assert.equal((await server.call("GET", "/v0/sandboxes", { key: token("r") })).status, 200);
  assert.equal((await server.call("GET", "/v0/users", { key: token("r") })).status, 403);
  await server.call("DELETE", `/v0/service_accounts/${robot.body.client_id}`);
  assert.equal((await server.call("GET", "/v0/sandboxes", { key: token("r") })).status, 401);
});

test("fifty requests at once, with credentials of every kind, do not mix up who asks", async () => {
  await using server = await startServer();
  const people = await Promise.all(["a", "b", "c", "d", "e"].map((name) => addPerson(server, `p-${name}`)));
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, index) => {
      const { apiKey, name } = people[index % people.length]!;
      return index % 10 === 9
        ? server.create({ name: `s-${index}` }, { key: `${apiKey}x` }).then((answer) => ({ answer, name: undefined }))
        : server.create({ name: `s-${index}` }, { key: apiKey }).then((answer) => ({ answer, name }));
    }),
  );
  for (const { answer, name } of answers) {
    assert.equal(answer.status, name === undefined ? 401 : 200);
    assert.equal(answer.body.metadata?.createdBy, name);
  }
});

test("a token without every scope of a role gives that role to nobody", async () => {
  await using server = await startServer();
  const mia = await addPerson(server, "mia", { role: "member" });
  const ada = await addPerson(server, "ada", { role: "admin" });
  const claims = { kind: "user", expiresAt: Date.now() + 600_000, subjectId: ada.id } as const;
  acceptTokens(server, {
    [token("settings")]: {
      ...claims,
      tokenId: "a",
      scopes: ["workspaces:update", "workspaces:invite", "apiKey:write"],
    },
    [token("members")]: { ...claims, tokenId: "b", scopes: ["workspaces:update", ...scopesOfRole("member")] },
    [token("all")]: { ...claims, tokenId: "c", scopes: [adminScope] },
  });
  const as = (name: string, method: string, url: string, body: object) =>
    server.call(method, url, { key: token(name), body });
  const makes = async (name: string, role?: string): Promise<number> =>
    (await as(name, "POST", "/v0/service_accounts", { name: "robot", role })).status;
  assert.deepEqual([await makes("settings"), await makes("settings", "admin")], [403, 403]);
  assert.deepEqual([await makes("members"), await makes("members", "admin")], [200, 403]);
  assert.deepEqual([await makes("all"), await makes("all", "admin")], [200, 200]);
  const [robot] = (await server.call("GET", "/v0/service_accounts")).body;
  const path = `/v0/service_accounts/${robot.client_id}`;
  const refused = await as("members", "PUT", path, { role: "admin" });
  assert.equal(refused.status, 403);
  assert.match(refused.headers.get("www-authenticate") ?? "", /insufficient_scope/);
  const renamed = await as("settings", "PUT", path, { name: "renamed", role: "member" });
  assert.deepEqual([renamed.status, renamed.body.name, renamed.body.role], [200, "renamed", "member"]);
  assert.equal((await as("all", "PUT", path, { role: "admin" })).body.role, "admin");

  const promotion = { role: "admin" };
  assert.equal((await as("settings", "PUT", `/v0/users/${mia.id}`, promotion)).status, 403);
  const invited = { email: "new@example.com" };
  assert.equal((await as("settings", "POST", "/v0/users", { ...invited, role: "admin" })).status, 403);
  assert.equal((await as("settings", "POST", "/v0/users", invited)).status, 200);
  assert.equal((await as("settings", "PUT", "/v0/users/new@example.com", promotion)).status, 403);
  assert.equal((await as("all", "PUT", "/v0/users/new@example.com", promotion)).status, 200);
  assert.equal((await as("settings", "PUT", "/v0/users/new@example.com", { role: "member" })).status, 200);
  assert.equal((await as("all", "PUT", `/v0/users/${mia.id}`, promotion)).status, 200);
});
