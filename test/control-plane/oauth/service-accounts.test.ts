// Client credentials: what service accounts get, how it ends, and what is refused.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type Server, startServer, until } from "../harness.ts";
import { addServiceAccount, decodeJwt, requestToken } from "./browser.ts";

let server: Server;
let account: Awaited<ReturnType<typeof addServiceAccount>>;

before(async () => {
  server = await startServer();
  account = await addServiceAccount(server);
});

after(async () => {
  await server[Symbol.asyncDispose]();
});

const login = { grant_type: "client_credentials" };

const use = (token: string, path = "/v0/sandboxes") => server.call("GET", path, { key: token });

describe("a service account", () => {
  test("logs in with JSON or a form, with Basic or in the body, and its token works at once", async () => {
    const inBody = { ...login, client_id: account.clientId, client_secret: account.secret };
    const answers = await Promise.all([
      requestToken(server, login, { basic: account.basic, json: true }),
      requestToken(server, login, { basic: account.basic }),
      requestToken(server, inBody, { json: true }),
      requestToken(server, inBody),
    ]);
    for (const { status, body, headers } of answers) {
      assert.equal(status, 200, JSON.stringify(body));
      assert.equal(headers.get("cache-control"), "no-store");
      for (const member of ["access_token", "refresh_token"]) assert.equal(typeof body[member], "string");
      assert.equal(body.expires_in, 7_200);
      assert.equal(body.token_type, "Bearer");
      const { payload } = decodeJwt(body.access_token);
      assert.equal(typeof payload.iat, "number");
      assert.equal(typeof payload.exp, "number");
      assert.equal(payload.sub, account.clientId);
      assert.equal((await use(body.access_token)).status, 200);
      const header = { "x-blaxel-authorization": `Bearer ${body.access_token}`, "x-blaxel-workspace": "main" };
      assert.equal((await server.call("GET", "/v0/sandboxes", { key: null, headers: header })).status, 200);
    }
  });

  test("gets what its role allows, less when it asks for less, and never more", async () => {
    const all = await requestToken(server, login, { basic: account.basic });
    assert.ok(all.body.scope.includes("sandboxes:create"));
    assert.ok(!all.body.scope.split(" ").includes("admin"));
    const less = await requestToken(server, { ...login, scope: "sandboxes:get" }, { basic: account.basic });
    assert.equal(less.body.scope, "sandboxes:get");
    assert.equal((await use(less.body.access_token, "/v0/sandboxes/none")).status, 404);
    const refused = await use(less.body.access_token);
    assert.equal(refused.status, 403);
    assert.match(refused.body.message, /sandboxes:list/);
    const challenge = 'Bearer realm="catnap", error="insufficient_scope", scope="sandboxes:list"';
    assert.equal(refused.headers.get("www-authenticate"), challenge);
    const more = await requestToken(server, { ...login, scope: "admin sandboxes:get" }, { basic: account.basic });
    assert.equal(more.body.scope, "sandboxes:get");
    const admin = await addServiceAccount(server, "admin");
    assert.equal((await requestToken(server, login, { basic: admin.basic })).body.scope, "admin");
  });

  test("loses with its role what its token was granted before", async () => {
    const demoted = await addServiceAccount(server, "admin");
    const { body } = await requestToken(server, login, { basic: demoted.basic });
    const key = body.access_token;
    const create = (name: string) => server.call("POST", "/v0/service_accounts", { key, body: { name } });
    assert.equal((await create("first")).status, 200);
    const path = `/v0/service_accounts/${demoted.clientId}`;
    assert.equal((await server.call("PUT", path, { body: { role: "member" } })).status, 200);
    assert.equal((await create("second")).status, 403);
    assert.equal((await use(key)).status, 200);
  });

  test("reaches sandboxes with its token, in its workspace, until it is revoked", async () => {
    const { directory } = server.controlPlane;
    const { body } = await requestToken(server, login, { basic: account.basic });
    const principal = await directory.authorize(body.access_token, "main");
    assert.equal(principal.id, account.clientId);
    assert.ok(principal.scopes.includes("sandboxes:control"));
    await assert.rejects(async () => directory.authorize(body.access_token, "other"), { code: "forbidden" });
    await requestToken(server, { token: body.access_token }, { basic: account.basic, path: "/v0/oauth/revoke" });
    await assert.rejects(async () => directory.authorize(body.access_token, "main"), { code: "unauthenticated" });
  });

  const refusals: Record<string, [() => Record<string, string>, () => string | undefined, number, string]> = {
    "a grant nobody knows": [() => ({ grant_type: "password" }), () => account.basic, 400, "unsupported_grant_type"],
    "a grant it may not use": [
      () => ({ grant_type: "authorization_code", code: "x", redirect_uri: "x" }),
      () => account.basic,
      400,
      "invalid_request",
    ],
    "no grant": [() => ({}), () => account.basic, 400, "invalid_request"],
    "no credentials": [() => login, () => undefined, 400, "invalid_request"],
    "a wrong secret": [() => login, () => `${account.clientId}:wrong`, 401, "invalid_client"],
    "an unknown client": [() => login, () => `nobody:${account.secret}`, 401, "invalid_client"],
    "a public client's name": [() => ({ ...login, client_id: "blaxel" }), () => undefined, 400, "invalid_request"],
    "an unknown scope": [() => ({ ...login, scope: "nope" }), () => account.basic, 400, "invalid_scope"],
    "only scopes above its role": [() => ({ ...login, scope: "admin" }), () => account.basic, 400, "invalid_scope"],
    "a resource of others": [
      () => ({ ...login, resource: "https://evil.example" }),
      () => account.basic,
      400,
      "invalid_target",
    ],
    "two ways to prove itself": [
      () => ({ ...login, client_id: account.clientId, client_secret: account.secret }),
      () => account.basic,
      400,
      "invalid_request",
    ],
  };
  for (const [what, [parameters, basic, status, error]] of Object.entries(refusals)) {
    test(`is answered ${status} ${error} with ${what}, as JSON and as a form`, async () => {
      for (const json of [true, false]) {
        const answer = await requestToken(server, parameters(), { basic: basic(), json });
        assert.equal(answer.status, status);
        assert.equal(answer.body.error, error);
        if (status === 401 && basic() !== undefined) {
          assert.match(answer.headers.get("www-authenticate") ?? "", /^Basic /);
        }
      }
    });
  }

  test("is refused bodies that are no parameters", async () => {
    const post = (body: string, type: string, basic = account.basic) =>
      fetch(`${server.url}/v0/oauth/token`, {
        method: "POST",
        headers: { "content-type": type, authorization: `Basic ${Buffer.from(basic).toString("base64")}` },
        body,
      });
    const json = "application/json";
    const form = "application/x-www-form-urlencoded";
    const bodies: [string, string, number][] = [
      ["{", json, 400],
      ["[]", json, 400],
      ['{"grant_type":["client_credentials"]}', json, 400],
      ['{"grant_type":{"a":1}}', json, 400],
      ['{"__proto__":{"grant_type":"client_credentials"}}', json, 400],
      ["grant_type=client_credentials&grant_type=client_credentials", form, 400],
      ["grant_type=client_credentials&scope=a&scope=b", form, 400],
      [`grant_type=client_credentials&scope=${"a".repeat(5_000)}`, form, 400],
      ["a=1&".repeat(60), form, 400],
      ["x".repeat(70_000), form, 413],
      ["<xml/>", "application/xml", 415],
    ];
    for (const [body, type, status] of bodies) {
      const response = await post(body, type);
      assert.equal(response.status, status, body.slice(0, 60));
      assert.equal(typeof ((await response.json()) as { error: string }).error, "string");
    }
    assert.equal((await post("{}", json, "no colon")).status, 400);
    assert.equal((await fetch(`${server.url}/v0/oauth/token`)).status, 404);
  });

  test("loses its tokens at once when it is deleted", async () => {
    const doomed = await addServiceAccount(server);
    const { body } = await requestToken(server, login, { basic: doomed.basic });
    assert.equal((await use(body.access_token)).status, 200);
    assert.equal((await server.call("DELETE", `/v0/service_accounts/${doomed.clientId}`)).status, 200);
    const refused = await use(body.access_token);
    assert.equal(refused.status, 401);
    assert.equal(refused.headers.get("www-authenticate"), 'Bearer realm="catnap", error="invalid_token"');
    const anonymous = await server.call("GET", "/v0/sandboxes", { key: null });
    assert.equal(anonymous.headers.get("www-authenticate"), 'Bearer realm="catnap"');
    assert.equal(await server.controlPlane.oauth.accessTokens.verify(body.access_token), undefined);
    assert.equal((await requestToken(server, login, { basic: doomed.basic })).status, 401);
  });

  test("cannot log in without end", async () => {
    const eager = await addServiceAccount(server);
    let answer = await requestToken(server, login, { basic: eager.basic });
    for (let count = 0; answer.status === 200 && count < 800; count += 20) {
      const more = await Promise.all(
        Array.from({ length: 20 }, () => requestToken(server, login, { basic: eager.basic })),
      );
      answer = more.find(({ status }) => status !== 200) ?? answer;
    }
    assert.equal(answer.body.error, "temporarily_unavailable");
    assert.equal((await requestToken(server, login, { basic: account.basic })).status, 200);
  });
});

test("expired records are removed and others kept", async () => {
  const { body } = await requestToken(server, login, { basic: account.basic });
  const count = async () => Number((await server.query("select count(*) as count from oauth_records"))[0]!.count);
  const before = await count();
  const past = new Date(Date.now() - 1_000).toISOString();
  await server.query("update oauth_records set expires_at = ? where model = 'Interaction' or model = 'Session'", past);
  await server.controlPlane.oauth.purge();
  assert.ok((await count()) <= before);
  assert.equal((await server.query("select id from oauth_records where expires_at <= ?", past)).length, 0);
  assert.equal((await use(body.access_token)).status, 200);
});

test("the audit log names who logged in, and has no secret", async () => {
  await using fresh = await startServer();
  const { clientId, secret, basic } = await addServiceAccount(fresh);
  await requestToken(fresh, login, { basic });
  await requestToken(fresh, login, { basic: `${clientId}:wrong` });
  const entries = await until("both are recorded", async () => {
    const { body } = await fresh.operate("GET", "/v0/audit-log");
    const ofClient = body.data.filter(({ resource }: { resource?: string }) => resource === clientId);
    return ofClient.length === 2 ? ofClient : undefined;
  });
  assert.deepEqual(
    entries.map(({ operation, status }: { operation: string; status: number }) => [operation, status]),
    [
      ["POST /oauth/token", 401],
      ["POST /oauth/token", 200],
    ],
  );
  assert.ok(!JSON.stringify(entries).includes(secret));
});

test("documents say where everything is", async () => {
  const locations = ["/v0/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/v0"];
  for (const path of [...locations, "/v0/.well-known/oauth-authorization-server"]) {
    const { status, body } = await server.call("GET", path, { key: null });
    assert.equal(status, 200);
    assert.equal(body.issuer, `${server.url}/v0`);
    assert.equal(body.authorization_endpoint, `${server.url}/v0/oauth/authorize`);
    assert.equal(body.token_endpoint, `${server.url}/v0/oauth/token`);
    assert.equal(body.device_authorization_endpoint, `${server.url}/v0/login/device`);
    assert.deepEqual(body.code_challenge_methods_supported, ["S256"]);
    assert.deepEqual(body.response_modes_supported, ["query"]);
    assert.ok(body.scopes_supported.includes("sandboxes:control"));
    assert.equal(body.registration_endpoint, undefined);
    const keys = await server.call("GET", new URL(body.jwks_uri).pathname, { key: null });
    for (const key of keys.body?.keys ?? JSON.parse(keys.text).keys) assert.equal(key.d, undefined);
  }
  // A proxy's headers, or somebody who writes them, change nothing.
  const headers = { "x-forwarded-host": "evil.example", "x-forwarded-proto": "https", forwarded: "host=evil.example" };
  const { body } = await server.call("GET", locations[0]!, { key: null, headers });
  assert.equal(body.token_endpoint, `${server.url}/v0/oauth/token`);
});
