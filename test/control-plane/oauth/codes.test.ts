// Codes and the clients they are for: exchanged once, by the right one, and stored by nobody.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type Server, startServer } from "../harness.ts";
import { addPerson, authorize, authorizeUrl, Browser, loopback, makePkce, password, requestToken } from "./browser.ts";

let server: Server;
let email: string;

before(async () => {
  server = await startServer();
  ({ email } = await addPerson(server));
});

after(async () => {
  await server[Symbol.asyncDispose]();
});

describe("a code", () => {
  const begin = async () => {
    const pkce = makePkce();
    const answer = await authorize(new Browser(server.url), email, { code_challenge: pkce.challenge });
    return { code: answer.get("code")!, ...pkce };
  };
  const exchange = (parameters: Record<string, string>) =>
    requestToken(server, {
      grant_type: "authorization_code",
      client_id: "blaxel",
      redirect_uri: loopback,
      ...parameters,
    });

  test("is worth nothing without its verifier, with another one or for another address", async () => {
    const { code, verifier, challenge } = await begin();
    assert.equal((await exchange({ code })).body.error, "invalid_grant");
    assert.equal((await exchange({ code, code_verifier: makePkce().verifier })).body.error, "invalid_grant");
    assert.equal((await exchange({ code, code_verifier: challenge })).body.error, "invalid_grant");
    const elsewhere = await exchange({ code, code_verifier: verifier, redirect_uri: "http://127.0.0.1:1/callback" });
    assert.equal(elsewhere.body.error, "invalid_grant");
    assert.equal((await exchange({ code, code_verifier: verifier })).status, 200);
  });

  test("presented twice ends all that it gave", async () => {
    const { code, verifier } = await begin();
    const { body } = await exchange({ code, code_verifier: verifier });
    const { accessTokens } = server.controlPlane.oauth;
    assert.ok(await accessTokens.verify(body.access_token));
    assert.equal((await exchange({ code, code_verifier: verifier })).body.error, "invalid_grant");
    assert.equal(await accessTokens.verify(body.access_token), undefined);
    const refreshed = await requestToken(server, {
      grant_type: "refresh_token",
      client_id: "blaxel",
      refresh_token: body.refresh_token,
    });
    assert.equal(refreshed.body.error, "invalid_grant");
  });

  test("is redeemed exactly once, however many try at the same moment", async () => {
    const { code, verifier } = await begin();
    const answers = await Promise.all(Array.from({ length: 20 }, () => exchange({ code, code_verifier: verifier })));
    assert.equal(answers.filter(({ status }) => status === 200).length, 1);
    for (const { status, body } of answers) if (status !== 200) assert.equal(body.error, "invalid_grant");
  });

  test("stands in no log, and nothing that could be presented is stored", async () => {
    const { code, verifier } = await begin();
    const { body } = await exchange({ code, code_verifier: verifier });
    const stored = await server.stored();
    for (const secret of [code, verifier, body.refresh_token, body.access_token, password, "code_challenge="]) {
      assert.ok(!server.logged().includes(secret), `the log has ${secret}`);
      assert.ok(!stored.includes(secret), `${secret} is stored`);
    }
  });
});

describe("a registered client", () => {
  const register = (body: object) => server.operate("POST", "/v0/oauth/clients", { body });
  const redirectUri = "https://app.example/callback";

  test("with a secret signs people in, with PKCE or without", async () => {
    const { status, body: client } = await register({ name: "App", public: false, redirectUris: [redirectUri] });
    assert.equal(status, 200);
    assert.match(client.clientSecret, /^cs_/);
    const parameters = { client_id: client.clientId, redirect_uri: redirectUri };
    const basic = `${client.clientId}:${client.clientSecret}`;
    const exchange = { grant_type: "authorization_code", redirect_uri: redirectUri };
    const plain = await authorize(new Browser(server.url), email, { ...parameters, code_challenge_method: undefined });
    assert.equal((await requestToken(server, { ...exchange, code: plain.get("code")! }, { basic })).status, 200);
    const { verifier, challenge: code_challenge } = makePkce();
    const kept = await authorize(new Browser(server.url), email, { ...parameters, code_challenge });
    const downgraded = await requestToken(server, { ...exchange, code: kept.get("code")! }, { basic });
    assert.equal(downgraded.body.error, "invalid_grant");
    const given = { ...exchange, code: kept.get("code")!, code_verifier: verifier };
    assert.equal((await requestToken(server, given, { basic })).status, 200);
  });

  test("cannot redeem a code of another, nor without its secret", async () => {
    const first = (await register({ name: "One", public: false, redirectUris: [redirectUri] })).body;
    const second = (await register({ name: "Two", public: false, redirectUris: [redirectUri] })).body;
    const parameters = { client_id: first.clientId, redirect_uri: redirectUri, code_challenge_method: undefined };
    const code = (await authorize(new Browser(server.url), email, parameters)).get("code")!;
    const exchange = { grant_type: "authorization_code", redirect_uri: redirectUri, code };
    const mixed = await requestToken(server, exchange, { basic: `${second.clientId}:${second.clientSecret}` });
    assert.equal(mixed.body.error, "invalid_grant");
    const wrong = await requestToken(server, exchange, { basic: `${first.clientId}:${second.clientSecret}` });
    assert.equal(wrong.status, 401);
    assert.match(wrong.headers.get("www-authenticate") ?? "", /^Basic /);
    assert.equal((await requestToken(server, { ...exchange, client_id: first.clientId })).body.error, "invalid_client");
  });

  test("takes its tokens along when it is removed", async () => {
    const { body: client } = await register({ name: "Gone", public: true, redirectUris: ["com.example.app:/done"] });
    const { verifier, challenge: code_challenge } = makePkce();
    const browser = new Browser(server.url);
    const parameters = { client_id: client.clientId, redirect_uri: "com.example.app:/done", code_challenge };
    let page = await browser.open(authorizeUrl(parameters));
    page = await browser.submit(page, { email, password });
    page = await browser.submit(page, { decision: "allow" });
    const exchanged = await requestToken(server, {
      grant_type: "authorization_code",
      client_id: client.clientId,
      redirect_uri: "com.example.app:/done",
      code: new URL(page.url).searchParams.get("code")!,
      code_verifier: verifier,
    });
    assert.equal(exchanged.status, 200, JSON.stringify(exchanged.body));
    assert.equal((await server.operate("DELETE", `/v0/oauth/clients/${client.clientId}`)).status, 200);
    assert.equal(await server.controlPlane.oauth.accessTokens.verify(exchanged.body.access_token), undefined);
    assert.equal((await server.operate("DELETE", `/v0/oauth/clients/${client.clientId}`)).status, 404);
  });

  test("is registered by nobody else, and only with addresses that are safe", async () => {
    assert.equal((await server.call("POST", "/v0/oauth/clients", { body: {} })).status, 404);
    assert.equal((await server.call("POST", "/v0/oauth/register", { body: {} })).status, 404);
    const unsafe = ["http://app.example/x", "https://app.example/#x", "https://u@app.example/x", "javascript:alert(1)"];
    for (const uri of [...unsafe, "https://*.example/x", "app:/x", "/x", "data:text/html,x"]) {
      for (const isPublic of [true, false]) {
        const { status, body } = await register({ name: "Bad", public: isPublic, redirectUris: [uri] });
        assert.equal(status, 400, uri);
        assert.match(body.message, /redirectUris/);
      }
    }
    assert.equal((await register({ name: "None", public: true, redirectUris: [] })).status, 400);
    assert.equal((await register({ name: "<b>", public: true, redirectUris: [redirectUri] })).status, 400);
  });
});
