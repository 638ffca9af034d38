// The page on which people sign in: what it tells nobody, and what tries to get around it.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { freezeClock } from "../freeze-clock.ts";
import { type Server, startServer } from "../harness.ts";
import { addPerson, authorizeUrl, Browser, makePkce, password } from "./browser.ts";

let server: Server;
let email: string;

before(async () => {
  server = await startServer();
  ({ email } = await addPerson(server));
});

after(async () => {
  await server[Symbol.asyncDispose]();
});

const { challenge } = makePkce();

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
