// Refresh tokens: each is used once, gives no more than it was given for, and ends with whom it is for.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type Server, startServer } from "../harness.ts";
import { addPerson, addServiceAccount, requestToken, signIn } from "./browser.ts";

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

describe("a refresh token", () => {
  const refresh = (refresh_token: string, more: Record<string, string> = {}, basic = account.basic) =>
    requestToken(server, { grant_type: "refresh_token", refresh_token, ...more }, { basic, json: true });
  const begin = async () => (await requestToken(server, login, { basic: account.basic })).body;

  test("is replaced at each use, and gives no more than it was given for", async () => {
    const first = await begin();
    const second = await refresh(first.refresh_token);
    assert.equal(second.status, 200, JSON.stringify(second.body));
    assert.notEqual(second.body.refresh_token, first.refresh_token);
    assert.equal((await use(second.body.access_token)).status, 200);
    const third = await refresh(second.body.refresh_token, { scope: "sandboxes:get" });
    assert.equal(third.body.scope, "sandboxes:get");
    const more = await refresh(third.body.refresh_token, { scope: "admin" });
    assert.equal(more.body.error, "invalid_scope");
  });

  test("presented twice ends its whole family", async () => {
    const first = await begin();
    const second = (await refresh(first.refresh_token)).body;
    assert.equal((await use(second.access_token)).status, 200);
    assert.equal((await refresh(first.refresh_token)).body.error, "invalid_grant");
    assert.equal((await refresh(second.refresh_token)).body.error, "invalid_grant");
    assert.equal((await use(second.access_token)).status, 401);
    assert.equal((await use(first.access_token)).status, 401);
  });

  test("is used exactly once, however many try at the same moment", async () => {
    const { refresh_token } = await begin();
    const answers = await Promise.all(Array.from({ length: 20 }, () => refresh(refresh_token)));
    assert.equal(answers.filter(({ status }) => status === 200).length, 1);
    for (const { status, body } of answers) if (status !== 200) assert.equal(body.error, "invalid_grant");
  });

  test("is worth nothing to another client, or as an access token", async () => {
    const { refresh_token } = await begin();
    const other = await addServiceAccount(server);
    assert.equal((await refresh(refresh_token, {}, other.basic)).body.error, "invalid_grant");
    const anonymous = { grant_type: "refresh_token", refresh_token, client_id: "blaxel" };
    assert.equal((await requestToken(server, anonymous)).body.error, "invalid_grant");
    assert.equal((await use(refresh_token)).status, 401);
    assert.equal((await refresh(refresh_token)).status, 200);
  });

  test("ends with a changed password and with a person who is disabled", async () => {
    const { email } = await addPerson(server);
    const ask = (refresh_token: string) =>
      requestToken(server, { grant_type: "refresh_token", client_id: "blaxel", refresh_token });
    const { users } = server.controlPlane.identity;
    const before = (await signIn(server, email)).body;
    assert.equal((await use(before.access_token)).status, 200);
    await users.setDisabled(email, true);
    assert.equal((await use(before.access_token)).status, 401);
    assert.equal((await ask(before.refresh_token)).body.error, "invalid_grant");
    await users.setDisabled(email, false);
    assert.equal((await use(before.access_token)).status, 401);
    assert.equal((await ask(before.refresh_token)).body.error, "invalid_grant");
  });
});
