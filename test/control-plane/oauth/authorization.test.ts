// The authorization code flow: signing in, agreeing, and which requests for it are refused where.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
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
