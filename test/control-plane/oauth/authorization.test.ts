// The authorization code flow: signing in, agreeing, exchanging the code, and what tries to get around each.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { freezeClock } from "../freeze-clock.ts";
import { type Server, startServer } from "../harness.ts";
import {
  addPerson,
  authorize,
  authorizeUrl,
  Browser,
  decodeJwt,
  loopback,
  makePkce,
  password,
  requestToken,
  signIn,
} from "./browser.ts";

let server: Server;
let email: string;
let personId: string;

before(async () => {
  server = await startServer();
  ({ email, id: personId } = await addPerson(server));
});

after(async () => {
  await server[Symbol.asyncDispose]();
});

const { challenge } = makePkce();

describe("a person who signs in", () => {
  test("gets a code for which the client gets tokens", async () => {
    const { status, body } = await signIn(server, email);
    assert.equal(status, 200, JSON.stringify(body));
    assert.deepEqual(Object.keys(body).sort(), ["access_token", "expires_in", "refresh_token", "scope", "token_type"]);
    assert.equal(body.token_type, "Bearer");
    assert.equal(body.expires_in, 7_200);
    assert.equal(body.scope, "admin");
    const { header, payload } = decodeJwt(body.access_token);
    assert.equal(header.alg, "ES256");
    assert.equal(header.typ, "at+jwt");
    assert.equal(payload.sub, personId);
    assert.equal(payload.iss, `${server.url}/v0`);
    assert.equal(Number(payload.exp) - Number(payload.iat), 7_200);
    const token = await server.controlPlane.oauth.accessTokens.verify(body.access_token);
    assert.deepEqual(token && { ...token, tokenId: "", issuedAt: 0, expiresAt: 0 }, {
      subjectId: personId,
      kind: "user",
      clientId: "blaxel",
      scopes: ["admin"],
      tokenId: "",
      audience: "urn:catnap:api",
      issuedAt: 0,
      expiresAt: 0,
    });
  });

  test("gets no more than was asked for, and an ID token when it was", async () => {
    const { body } = await signIn(server, email, { scope: "openid sandboxes:get volumes:list" });
    assert.equal(body.scope, "sandboxes:get volumes:list");
    assert.equal(decodeJwt(body.id_token).payload.aud, "blaxel");
  });

  test("as a member grants no more than a member may", async () => {
    const member = await addPerson(server, { email: "member@example.com", role: "member" });
    const { body } = await signIn(server, member.email, { scope: "admin policies:create sandboxes:get" });
    assert.equal(body.scope, "sandboxes:get");
    const all = await signIn(server, member.email);
    assert.ok(!all.body.scope.split(" ").includes("admin"));
    assert.ok(all.body.scope.split(" ").includes("sandboxes:create"));
    const { verifier: _, challenge: code_challenge } = makePkce();
    const browser = new Browser(server.url);
    let page = await browser.open(authorizeUrl({ code_challenge, scope: "admin" }));
    page = await browser.submit(page, { email: member.email, password });
    page = await browser.submit(page, { decision: "allow" });
    assert.equal(new URL(page.url).searchParams.get("error"), "invalid_scope");
  });

  test("who denies sends the client away, with its state", async () => {
    for (const step of ["login", "consent"]) {
      const browser = new Browser(server.url);
      let page = await browser.open(authorizeUrl({ code_challenge: challenge }));
      if (step === "consent") page = await browser.submit(page, { email, password });
      page = await browser.submit(page, { decision: "deny" });
      const answer = new URL(page.url).searchParams;
      assert.equal(answer.get("error"), "access_denied");
      assert.equal(answer.get("state"), "state-1");
      assert.equal(answer.get("code"), null);
    }
  });

  test("is asked to agree every time, and can become somebody else", async () => {
    const other = await addPerson(server, { email: "other@example.com" });
    const browser = new Browser(server.url);
    await authorize(browser, email, { code_challenge: challenge });
    let page = await browser.open(authorizeUrl({ code_challenge: challenge }));
    assert.match(page.text, /signed in as <strong>ada@example\.com/);
    page = await browser.submit(page, { decision: "switch" });
    assert.match(page.text, /name="password"/);
    page = await browser.submit(page, { email: other.email, password });
    assert.match(page.text, /signed in as <strong>other@example\.com/);
  });

  test("can sign in as somebody else when the client insists on signing in again", async () => {
    const browser = new Browser(server.url);
    await authorize(browser, email, { code_challenge: challenge });
    let page = await browser.open(authorizeUrl({ code_challenge: challenge, prompt: "login" }));
    assert.match(page.text, /name="password"/);
    page = await browser.submit(page, { email: "other@example.com", password });
    assert.match(page.text, /signed in as <strong>other@example\.com/);
  });
});

describe("the sign-in page", () => {
  test("answers the same for an unknown person and a wrong password", async () => {
    const answers = [];
    for (const [given, word] of [
      [email, "wrong password"],
      ["nobody@example.com", password],
      ["", ""],
    ] as const) {
      const browser = new Browser(server.url);
      const page = await browser.open(authorizeUrl({ code_challenge: challenge }));
      const answer = await browser.submit(page, { email: given, password: word });
      const plain = (text: string) => text.replaceAll(/value="[^"]*"|action="[^"]*"/g, "");
      answers.push({ status: answer.status, text: plain(answer.text) });
    }
    assert.match(answers[0]!.text, /e-mail address or the password is wrong/);
    assert.equal(answers[0]!.status, 400);
    assert.deepEqual(answers[1], answers[0]);
    assert.deepEqual(answers[2], answers[0]);
  });

  test("lets nobody guess on and on", async (t) => {
    freezeClock(t);
    const guesser = await startServer();
    try {
      const { email: guessed } = await addPerson(guesser);
      const known = new Browser(guesser.url);
      await known.submit(await known.open(authorizeUrl({ code_challenge: challenge })), { email: guessed, password });
      const mark = known.cookies.find(({ name }) => name === "catnap_browser");
      assert.match(mark?.path ?? "", /^\/v0\/oauth\/interaction$/);
      const browser = new Browser(guesser.url);
      let page = await browser.open(authorizeUrl({ code_challenge: challenge }));
      let guesses = 0;
      while (page.status !== 429 && guesses < 120) {
        page = await browser.submit(page, { email: guessed, password: `guess ${guesses}` });
        guesses += 1;
      }
      assert.equal(page.status, 429);
      assert.match(page.headers.get("retry-after") ?? "", /^\d+$/);
      // The right password does not help any more.
      page = await browser.submit(page, { email: guessed, password });
      assert.equal(page.status, 429);
      // Whoever has signed in with a browser before is not locked out by strangers.
      const again = await known.open(authorizeUrl({ code_challenge: challenge, prompt: "login" }));
      assert.equal((await known.submit(again, { email: guessed, password })).status, 200);
    } finally {
      await guesser[Symbol.asyncDispose]();
    }
  });

  test("cannot be framed, scripted or kept, and leads only where the client is", async () => {
    const page = await new Browser(server.url).open(authorizeUrl({ code_challenge: challenge }));
    const policy = page.headers.get("content-security-policy") ?? "";
    assert.match(policy, /default-src 'none'/);
    assert.match(policy, /frame-ancestors 'none'/);
    assert.match(policy, /form-action 'self' http:\/\/127\.0\.0\.1:53123(;|$)/);
    assert.doesNotMatch(policy, /script-src|unsafe/);
    assert.equal(page.headers.get("x-frame-options"), "DENY");
    assert.equal(page.headers.get("cache-control"), "no-store");
    assert.equal(page.headers.get("x-content-type-options"), "nosniff");
    assert.doesNotMatch(page.text, /<script|javascript:| on[a-z]+=/i);
    assert.match(page.text, /<label for="email">/);
  });

  test("belongs to the browser that began: its address or form is of no use elsewhere", async () => {
    const victim = new Browser(server.url);
    const attacker = new Browser(server.url);
    const page = await attacker.open(authorizeUrl({ code_challenge: challenge }));
    // Login CSRF: the attacker's form in the victim's browser, which has no cookie of it.
    assert.equal((await victim.submit(page, { email, password })).status, 400);
    assert.equal((await victim.open(page.url)).status, 400);
    // The victim's own interaction, posted by a page of others.
    const own = await victim.open(authorizeUrl({ code_challenge: challenge }));
    const foreign: Record<string, string>[] = [
      { origin: "https://evil.example" },
      { "sec-fetch-site": "cross-site" },
      { origin: "null" },
    ];
    for (const headers of foreign) {
      assert.equal((await victim.submit(own, { email, password }, headers)).status, 403);
    }
    const forged = { ...own, text: own.text.replace(/name="csrf" value="[^"]*"/, 'name="csrf" value="x"') };
    assert.equal((await victim.submit(forged, { email, password })).status, 403);
  });

  test("sets cookies that scripts and other sites do not get", async () => {
    const response = await fetch(`${server.url}${authorizeUrl({ code_challenge: challenge })}`, { redirect: "manual" });
    const cookies = response.headers.getSetCookie();
    assert.ok(cookies.length >= 2);
    for (const cookie of cookies) {
      assert.match(cookie, /; httponly/i);
      assert.match(cookie, /; samesite=lax/i);
      assert.match(cookie, /; path=\/v0/i);
    }
  });

  test("gives a new session to whoever signs in: one planted before is worth nothing", async () => {
    const attacker = new Browser(server.url);
    const page = await attacker.open(authorizeUrl({ code_challenge: challenge }));
    const planted = attacker.cookies.map((cookie) => ({ ...cookie }));
    const victim = new Browser(server.url);
    victim.cookies.push(...planted);
    const consent = await victim.submit(page, { email, password });
    assert.match(consent.text, /Allow access/);
    const mine = await attacker.open(authorizeUrl({ code_challenge: challenge }));
    assert.match(mine.text, /name="password"/);
  });

  test("escapes what callers put into it", async () => {
    const evil = '"><script>alert(1)</script>';
    const browser = new Browser(server.url);
    const page = await browser.open(authorizeUrl({ code_challenge: challenge, state: evil, login_hint: evil }));
    const answer = await browser.submit(page, { email: evil, password: evil });
    const pages = [page, answer, await browser.open(`/v0/login/device/verify?user_code=${encodeURIComponent(evil)}`)];
    const parameters = ["client_id", "redirect_uri", "scope", "response_type", "prompt", "resource", "response_mode"];
    for (const name of parameters) {
      pages.push(await browser.open(authorizeUrl({ code_challenge: challenge, [name]: evil })));
    }
    for (const { text, url } of pages) assert.doesNotMatch(text, /<script|"><s/i, url);
  });
});

describe("an authorization request", () => {
  const refusedHere: Record<string, Record<string, string | undefined>> = {
    "of another host": { redirect_uri: "http://evil.example/callback" },
    "with a user in front of the host": { redirect_uri: "http://127.0.0.1:1@evil.example/callback" },
    "with a user before a loopback host": { redirect_uri: "http://evil@127.0.0.1:1/callback" },
    "with a fragment": { redirect_uri: `${loopback}#x` },
    "with a longer path": { redirect_uri: `${loopback}/../evil` },
    "with a prefix of a host": { redirect_uri: "http://127.0.0.1.evil.example/callback" },
    "with a query": { redirect_uri: `${loopback}?next=http://evil.example` },
    "with https for loopback": { redirect_uri: "https://127.0.0.1/callback" },
    "with a script": { redirect_uri: "javascript:alert(1)" },
    "that is relative": { redirect_uri: "//evil.example/callback" },
    "without one": { redirect_uri: undefined },
    "of an unknown client": { client_id: "nobody" },
    "without a client": { client_id: undefined },
  };
  for (const [what, parameters] of Object.entries(refusedHere)) {
    test(`is refused on a page of ours, never by a redirect, with an address ${what}`, async () => {
      const url = `${server.url}${authorizeUrl({ code_challenge: challenge, ...parameters })}`;
      const response = await fetch(url, { redirect: "manual", headers: { accept: "text/html" } });
      assert.equal(response.status, 400);
      assert.equal(response.headers.get("location"), null);
      assert.match(await response.text(), /This did not work/);
    });
  }

  const sentBack: Record<string, [Record<string, string | undefined>, string]> = {
    "no PKCE": [{ code_challenge: undefined, code_challenge_method: undefined }, "invalid_request"],
    "plain PKCE": [{ code_challenge: challenge, code_challenge_method: "plain" }, "invalid_request"],
    "a challenge without a method": [
      { code_challenge: challenge, code_challenge_method: undefined },
      "invalid_request",
    ],
    "an unknown scope": [{ code_challenge: challenge, scope: "sandboxes:fly" }, "invalid_scope"],
    "an implicit token": [{ code_challenge: challenge, response_type: "token" }, "unsupported_response_type"],
    "a foreign resource": [{ code_challenge: challenge, resource: "https://evil.example" }, "invalid_target"],
    "a form as the answer": [{ code_challenge: challenge, response_mode: "form_post" }, "unsupported_response_mode"],
    "no questions": [{ code_challenge: challenge, prompt: "none" }, "login_required"],
  };
  for (const [what, [parameters, error]] of Object.entries(sentBack)) {
    test(`with ${what} is answered with ${error}`, async () => {
      const response = await fetch(`${server.url}${authorizeUrl(parameters)}`, { redirect: "manual" });
      const location = new URL(response.headers.get("location") ?? assert.fail(await response.text()));
      assert.equal(location.origin, new URL(loopback).origin);
      // Implicit flows are answered behind the mark.
      const answer = location.hash === "" ? location.searchParams : new URLSearchParams(location.hash.slice(1));
      assert.equal(answer.get("error"), error);
      assert.equal(answer.get("state"), "state-1");
      assert.equal(answer.get("iss"), `${server.url}/v0`);
    });
  }

  test("from any port of any loopback address is one of the command line's", async () => {
    for (const uri of ["http://127.0.0.1:1/callback", "http://[::1]:65535/callback", "http://localhost:8080/"]) {
      const page = await new Browser(server.url).open(authorizeUrl({ code_challenge: challenge, redirect_uri: uri }));
      assert.match(page.text, /Sign in/);
    }
  });

  test("that is far too long is refused", async () => {
    const response = await fetch(`${server.url}${authorizeUrl({ state: "x".repeat(9_000) })}`, { redirect: "manual" });
    assert.equal(response.status, 414);
  });
});

describe("a code", () => {
  const begin = async () => {
    const pkce = makePkce();
    const answer = await authorize(new Browser(server.url), email, { code_challenge: pkce.challenge });
    return { code: answer.get("code")!, verifier: pkce.verifier };
  };
  const exchange = (parameters: Record<string, string>) =>
    requestToken(server, {
      grant_type: "authorization_code",
      client_id: "blaxel",
      redirect_uri: loopback,
      ...parameters,
    });

  test("is worth nothing without its verifier, with another one or for another address", async () => {
    const { code, verifier } = await begin();
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
