// Signing a device in: it shows a code, a person types and confirms it elsewhere (RFC 8628); and how such devices refresh.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { freezeClock } from "../freeze-clock.ts";
import { type Server, startServer, until } from "../harness.ts";
import { addPerson, Browser, password, requestToken } from "./browser.ts";

let server: Server;
let email: string;

before(async () => {
  server = await startServer();
  ({ email } = await addPerson(server));
});

after(async () => {
  await server[Symbol.asyncDispose]();
});

const grant = "urn:ietf:params:oauth:grant-type:device_code";

const begin = async (parameters: Record<string, string> = { client_id: "blaxel", scope: "offline_access" }) =>
  (await requestToken(server, parameters, { path: "/v0/login/device", json: true })).body;
const poll = (device_code: string, client_id = "blaxel") =>
  requestToken(server, { grant_type: grant, client_id, device_code }, { json: true });
/** Asks until it is not told to slow down. */
const pollSlowly = (device_code: string) =>
  until("an answer", async () => {
    const answer = await poll(device_code);
    return answer.body.error === "slow_down" ? undefined : answer;
  });

async function approve(userCode: string, decision = "allow"): Promise<Browser> {
  const browser = new Browser(server.url);
  let page = await browser.open("/v0/login/device/verify");
  page = await browser.submit(page, { user_code: userCode });
  assert.match(page.text, /catnap command line/);
  page = await browser.submit(page, { confirm: "yes" });
  page = await browser.submit(page, { email, password });
  assert.match(page.text, /signed in as <strong>ada@example\.com/);
  page = await browser.submit(page, { decision });
  assert.match(page.text, decision === "allow" ? /The device is signed in/ : /not signed in/, page.text);
  return browser;
}

describe("a device", () => {
  test("is told what to show and how often to ask", async () => {
    const answer = await begin();
    assert.match(answer.user_code, /^[B-Z]{4}-[B-Z]{4}$/);
    assert.equal(answer.verification_uri, `${server.url}/v0/login/device/verify`);
    assert.equal(answer.verification_uri_complete, `${answer.verification_uri}?user_code=${answer.user_code}`);
    assert.equal(answer.expires_in, 600);
    assert.equal(answer.interval, 2);
  });

  test("waits until a person agrees and gets tokens once", async () => {
    const { device_code, user_code } = await begin();
    const pending = await poll(device_code);
    assert.equal(pending.status, 400);
    assert.equal(pending.body.error, "authorization_pending");
    await approve(user_code.toLowerCase().replace("-", " "));
    const { status, body } = await pollSlowly(device_code);
    assert.equal(status, 200, JSON.stringify(body));
    assert.deepEqual(Object.keys(body).sort(), ["access_token", "expires_in", "refresh_token", "scope", "token_type"]);
    assert.equal((await server.call("GET", "/v0/sandboxes", { key: body.access_token })).status, 200);
    assert.equal((await pollSlowly(device_code)).body.error, "invalid_grant");
    assert.equal((await server.call("GET", "/v0/sandboxes", { key: body.access_token })).status, 401);
  });

  test("is told when the person denied, or cancelled before signing in", async () => {
    const denied = await begin();
    await approve(denied.user_code, "deny");
    assert.equal((await pollSlowly(denied.device_code)).body.error, "access_denied");
    const cancelled = await begin();
    const browser = new Browser(server.url);
    let page = await browser.open("/v0/login/device/verify");
    page = await browser.submit(page, { user_code: cancelled.user_code });
    page = await browser.submit(page, { abort: "yes" });
    assert.match(page.text, /not signed in/);
    assert.equal((await pollSlowly(cancelled.device_code)).body.error, "access_denied");
  });

  test("that asks too often is told to slow down", async () => {
    const { device_code } = await begin();
    const errors = [];
    for (let count = 0; count < 4; count += 1) errors.push((await poll(device_code)).body.error);
    assert.ok(errors.includes("slow_down"), errors.join());
  });

  test("whose code has expired is told so, and the code leads nowhere", async () => {
    const { device_code, user_code } = await begin();
    await server.query("update oauth_records set expires_at = ? where model = 'DeviceCode'", new Date(0).toISOString());
    assert.equal((await poll(device_code)).body.error, "invalid_grant");
    const browser = new Browser(server.url);
    const page = await browser.submit(await browser.open("/v0/login/device/verify"), { user_code });
    assert.match(page.text, /not known, was used, or has expired/);
  });

  test("of another client cannot take the tokens", async () => {
    const registered = { name: "TV", public: true, redirectUris: ["com.example.tv:/done"] };
    const { body: other } = await server.operate("POST", "/v0/oauth/clients", { body: registered });
    const { device_code, user_code } = await begin();
    await approve(user_code);
    assert.equal((await poll(device_code, other.clientId)).body.error, "invalid_grant");
    assert.equal((await pollSlowly(device_code)).status, 200);
  });

  test("that asks for nonsense is refused", async () => {
    assert.equal((await begin({ client_id: "nobody" })).error, "invalid_client");
    assert.equal((await begin({})).error, "invalid_request");
    assert.equal((await begin({ client_id: "blaxel", scope: "sandboxes:fly" })).error, "invalid_scope");
    assert.equal((await poll("nothing")).body.error, "invalid_grant");
  });

  test("gets its tokens once, however often it asks at the same moment", async () => {
    const { device_code, user_code } = await begin();
    await approve(user_code);
    const answers = await Promise.all(Array.from({ length: 20 }, () => poll(device_code)));
    assert.equal(answers.filter(({ status }) => status === 200).length, 1);
  });
});

describe("the page for codes", () => {
  test("fills in the code of a link and leaves the rest to the person", async () => {
    const { device_code, user_code, verification_uri_complete } = await begin();
    const browser = new Browser(server.url);
    const page = await browser.open(verification_uri_complete);
    assert.match(page.text, new RegExp(`value="${user_code}"`));
    assert.doesNotMatch(page.text, /<script/);
    assert.match(page.headers.get("content-security-policy") ?? "", /frame-ancestors 'none'/);
    assert.equal((await poll(device_code)).body.error, "authorization_pending");
  });

  test("takes forms of its own only", async () => {
    const { user_code } = await begin();
    const browser = new Browser(server.url);
    const page = await browser.open("/v0/login/device/verify");
    const forged = { ...page, text: page.text.replace(/name="xsrf" value="[^"]*"/, 'name="xsrf" value="x"') };
    assert.match((await browser.submit(forged, { user_code })).text, /not known/);
    const stranger = new Browser(server.url);
    assert.doesNotMatch((await stranger.submit(page, { user_code, confirm: "yes" })).text, /password/);
  });

  test("lets nobody try codes on and on", async (t) => {
    freezeClock(t);
    const guesser = await startServer();
    try {
      const browser = new Browser(guesser.url);
      let page = await browser.open("/v0/login/device/verify");
      let tries = 0;
      while (page.status !== 429 && tries < 400) {
        const before = page;
        page = await browser.submit(page, { user_code: "BBBB-BBBB" });
        tries += 1;
        if (page.status !== 429) assert.match(page.text, /not known/, before.text);
      }
      assert.equal(page.status, 429);
    } finally {
      await guesser[Symbol.asyncDispose]();
    }
  });
});

describe("the refresh token of a device", () => {
  const signIn = async () => {
    const { device_code, user_code } = await begin();
    await approve(user_code);
    return { device_code, ...(await pollSlowly(device_code)).body };
  };
  const refresh = (parameters: Record<string, string>) =>
    requestToken(server, { grant_type: "refresh_token", ...parameters }, { json: true });

  test("stays good with the device code, which command lines never replace", async () => {
    const { device_code, refresh_token } = await signIn();
    for (let count = 0; count < 3; count += 1) {
      const { status, body } = await refresh({ device_code, refresh_token });
      assert.equal(status, 200, JSON.stringify(body));
      assert.equal(body.refresh_token, refresh_token);
      assert.equal((await server.call("GET", "/v0/sandboxes", { key: body.access_token })).status, 200);
    }
    assert.equal((await refresh({ device_code, refresh_token, client_id: "blaxel" })).status, 200);
  });

  test("without the device code is replaced at each use, and used twice ends everything", async () => {
    const { device_code, refresh_token } = await signIn();
    const stolen = await refresh({ refresh_token, client_id: "blaxel" });
    assert.equal(stolen.status, 200);
    assert.notEqual(stolen.body.refresh_token, refresh_token);
    assert.equal((await refresh({ device_code, refresh_token })).body.error, "invalid_grant");
    const after = await refresh({ refresh_token: stolen.body.refresh_token, client_id: "blaxel" });
    assert.equal(after.body.error, "invalid_grant");
  });

  test("is worth nothing with the code of another device, or an unknown one", async () => {
    const mine = await signIn();
    const other = await signIn();
    for (const device_code of [other.device_code, "nothing", ""]) {
      const answer = await refresh({ device_code, refresh_token: mine.refresh_token });
      assert.equal(answer.body.error, "invalid_grant", device_code);
    }
    assert.equal((await refresh({ device_code: mine.device_code, refresh_token: mine.refresh_token })).status, 200);
  });
});
