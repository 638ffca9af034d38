// Revoking and looking at tokens: by the client they were given to, and nobody else.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type Server, startServer } from "../harness.ts";
import { addServiceAccount, requestToken } from "./browser.ts";

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

const use = (token: string) => server.call("GET", "/v0/sandboxes", { key: token });

describe("a token that its client no longer wants", () => {
  const path = "/v0/oauth/revoke";
  const introspect = async (token: string, basic = account.basic) =>
    (await requestToken(server, { token }, { basic, path: "/v0/oauth/introspect" })).body;

  test("is revoked by itself when it is an access token", async () => {
    const { body } = await requestToken(server, login, { basic: account.basic });
    const refreshed = await requestToken(
      server,
      { grant_type: "refresh_token", refresh_token: body.refresh_token },
      { basic: account.basic },
    );
    assert.equal((await introspect(body.access_token)).active, true);
    assert.equal((await introspect(body.access_token)).sub, account.clientId);
    assert.equal(
      (await requestToken(server, { token: body.access_token }, { basic: account.basic, path })).status,
      200,
    );
    assert.equal((await use(body.access_token)).status, 401);
    assert.deepEqual(await introspect(body.access_token), { active: false });
    assert.equal((await use(refreshed.body.access_token)).status, 200);
  });

  test("takes everything along when it is a refresh token", async () => {
    const { body } = await requestToken(server, login, { basic: account.basic });
    assert.equal((await introspect(body.refresh_token)).active, true);
    const revoked = await requestToken(
      server,
      { token: body.refresh_token },
      { basic: account.basic, path, json: true },
    );
    assert.equal(revoked.status, 200);
    assert.equal((await use(body.access_token)).status, 401);
    assert.equal((await introspect(body.refresh_token)).active, false);
  });

  test("is neither revoked nor looked at by another client", async () => {
    const { body } = await requestToken(server, login, { basic: account.basic });
    const other = await addServiceAccount(server);
    for (const token of [body.access_token, body.refresh_token]) {
      assert.deepEqual(await introspect(token, other.basic), { active: false });
      await requestToken(server, { token }, { basic: other.basic, path });
    }
    assert.equal((await use(body.access_token)).status, 200);
    assert.equal((await introspect(body.refresh_token)).active, true);
  });

  test("need not exist, but whoever asks must prove who it is", async () => {
    for (const token of ["nothing", "ey.ey.ey", "eyJhbGciOiJub25lIn0.e30."]) {
      assert.equal((await requestToken(server, { token }, { basic: account.basic, path })).status, 200);
      assert.deepEqual(await introspect(token), { active: false });
      assert.equal((await requestToken(server, { token }, { basic: `${account.clientId}:x`, path })).status, 401);
    }
  });
});
