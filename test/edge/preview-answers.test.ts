// What comes back from previews: headers added and taken out, cookies instead of tokens for browsers, preflights, and when it ends.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import type { PreviewRoute } from "../../src/contract/host.ts";
import { eventually } from "../eventually.ts";
import { parseAnswer, previews, startEdge, type TestEdge, tokens } from "./harness.ts";
import { goodToken, madeLabel, previewHost, webPreview } from "./preview-route.ts";

const web: PreviewRoute = {
  ...webPreview,
  isPublic: true,
  responseHeaders: { "X-Own": "yes", "Content-Type": "text/x-own" },
};

const hostile = [
  ...[
    "content-length",
    "6",
    "Content-Type",
    "text/html",
    "x-own",
    "no",
    "x-kept",
    "kept",
    "Set-Cookie",
    "a=1; Domain=sandboxes.test; Path=/",
  ],
  ...["set-cookie", "catnap-preview=planted; Path=/", "SET-COOKIE", "b=2;domain = .x ;HttpOnly;DOMAIN"],
  ...["Clear-Site-Data", '"*"', "Alt-Svc", 'h3=":1"', "Service-Worker-Allowed", "/", "strict-transport-security", "x"],
];

let edge: TestEdge;
before(async () => {
  edge = await startEdge({}, { answer: (response) => void response.writeHead(200, hostile).end("inside") });
});
after(() => edge[Symbol.asyncDispose]());
beforeEach(() => {
  previews.clear();
  tokens.clear();
  previews.set("shop-w1", web).set(madeLabel, web);
  tokens.add(`p1 ${goodToken}`);
});

const get = (target: string, name: string, ...headers: string[]): Promise<string> =>
  edge.raw([`GET ${target} HTTP/1.1`, `host: ${name}`, ...headers, "connection: close", "", ""].join("\r\n"));

function linesOf(text: string, name: string): string[] {
  const head = text.slice(0, text.indexOf("\r\n\r\n")).split("\r\n");
  return head
    .filter((line) => line.toLowerCase().startsWith(`${name}:`))
    .map((line) => line.slice(name.length + 1).trim());
}

test("the owner's headers replace the program's, and cookies stay with their host", async () => {
  const text = await get("/", previewHost);
  assert.deepEqual(linesOf(text, "x-own"), ["yes"]);
  assert.deepEqual(linesOf(text, "content-type"), ["text/x-own"]);
  assert.deepEqual(linesOf(text, "x-kept"), ["kept"]);
  assert.deepEqual(linesOf(text, "set-cookie"), ["a=1; Path=/", "b=2;HttpOnly"]);
  for (const name of ["clear-site-data", "alt-svc", "content-security-policy"])
    assert.deepEqual(linesOf(text, name), []);
  assert.equal(linesOf(text, "server-timing").length, 1);
});

test("below a path of the platform a page has an origin of nobody and sets nothing for the platform's", async () => {
  const text = await get(`/run/preview/${madeLabel}/`, "127.0.0.1");
  for (const name of [
    "set-cookie",
    "clear-site-data",
    "alt-svc",
    "service-worker-allowed",
    "strict-transport-security",
  ]) {
    assert.deepEqual(linesOf(text, name), [], name);
  }
  const [policy = ""] = linesOf(text, "content-security-policy");
  assert.match(policy, /^sandbox /);
  assert.doesNotMatch(policy, /allow-same-origin|allow-top-navigation/);
});

test("below a path of the platform no browser asks for a password in its name, and programs are asked", async () => {
  const challenge = ["WWW-Authenticate", 'Basic realm="platform"', "www-authenticate", "Bearer, dIgEsT realm=x"];
  await using asking = await startEdge({}, { answer: (response) => void response.writeHead(401, challenge).end() });
  const ask = (target: string, ...headers: string[]) =>
    asking.raw([`GET ${target} HTTP/1.1`, ...headers, "connection: close", "", ""].join("\r\n"));
  const path = `/run/preview/${madeLabel}/`;
  for (const browser of ["accept: text/html", "sec-fetch-mode: no-cors", "sec-fetch-mode: navigate"]) {
    const text = await ask(path, "host: x", browser);
    assert.deepEqual([parseAnswer(text).status, linesOf(text, "www-authenticate")], [401, []], browser);
  }
  assert.equal(linesOf(await ask(path, "host: x"), "www-authenticate").length, 2);
  assert.equal(linesOf(await ask("/", `host: ${previewHost}`, "accept: text/html"), "www-authenticate").length, 2);
});

test("refusals carry the owner's headers as well, so that pages can read them", async () => {
  previews.set("shop-w1", {
    ...web,
    isPublic: false,
    responseHeaders: { "Access-Control-Allow-Origin": "https://app" },
  });
  const text = await get("/", previewHost);
  assert.equal(parseAnswer(text).status, 401);
  assert.deepEqual(linesOf(text, "access-control-allow-origin"), ["https://app"]);
});

test("a browser that opens a page with a token goes on with a cookie", async () => {
  previews.set("shop-w1", { ...web, isPublic: false }).set(madeLabel, { ...web, isPublic: false });
  const page = "accept: text/html,*/*";
  const query = `?a=1&bl_preview_token=${goodToken}`;
  const byHost = await get(`/x${query}`, previewHost, page);
  assert.equal(parseAnswer(byHost).status, 303);
  assert.deepEqual(linesOf(byHost, "location"), ["/x?a=1"]);
  assert.deepEqual(linesOf(byHost, "set-cookie"), [`catnap-preview=${goodToken}; Path=/; HttpOnly; SameSite=Lax`]);
  assert.deepEqual(linesOf(byHost, "referrer-policy"), ["no-referrer"]);
  const byPath = await get(`/run/preview/${madeLabel}${query}`, "127.0.0.1", page);
  assert.deepEqual(linesOf(byPath, "location"), [`/run/preview/${madeLabel}/?a=1`]);
  assert.match(linesOf(byPath, "set-cookie").join(), new RegExp(`Path=/run/preview/${madeLabel}; HttpOnly`));
  const elsewhere = await get(`//evil.test/${query}`, previewHost, page);
  assert.deepEqual(linesOf(elsewhere, "location"), ["/.//evil.test/?a=1"]);
  for (const program of [["accept: */*"], [page, "sec-fetch-mode: cors"]]) {
    assert.equal(parseAnswer(await get(`/x${query}`, previewHost, ...program)).body, "inside");
  }
  assert.equal(parseAnswer(await get(`/x?bl_preview_token=bad`, previewHost, page)).status, 401);
});

test("the cookie of a secure address cannot be set by others, and one in another site's page is that page's", async () => {
  await using secure = await startEdge({}, { isSecure: true });
  previews.set("shop-w1", { ...web, isPublic: false });
  const ask = (...more: string[]) =>
    secure.raw(
      [
        `GET /?bl_preview_token=${goodToken} HTTP/1.1`,
        `host: ${previewHost}`,
        "sec-fetch-mode: navigate",
        ...more,
        "connection: close",
        "",
        "",
      ].join("\r\n"),
    );
  const name = "__Host-catnap-preview";
  assert.deepEqual(linesOf(await ask(), "set-cookie"), [
    `${name}=${goodToken}; Path=/; HttpOnly; SameSite=Lax; Secure`,
  ]);
  const embedded = linesOf(await ask("sec-fetch-dest: iframe"), "set-cookie");
  assert.deepEqual(embedded, [`${name}=${goodToken}; Path=/; HttpOnly; SameSite=None; Partitioned; Secure`]);
});

test("a page without the slash is sent to where its relative links work", async () => {
  const text = await get(`/run/preview/${madeLabel}`, "127.0.0.1", "accept: text/html");
  assert.deepEqual([parseAnswer(text).status, linesOf(text, "location")], [303, [`/run/preview/${madeLabel}/`]]);
});

const preflight = (...headers: string[]): Promise<string> =>
  edge.raw(
    [
      "OPTIONS /x HTTP/1.1",
      `host: ${previewHost}`,
      "origin: https://app",
      "access-control-request-method: PUT",
      ...headers,
      "connection: close",
      "",
      "",
    ].join("\r\n"),
  );

test("a preflight is answered with the owner's headers and wakes nothing", async () => {
  const responseHeaders = { "Access-Control-Allow-Origin": "https://app", "access-control-max-age": "5" };
  for (const isPublic of [true, false]) {
    previews.set("shop-w1", { ...web, isPublic, responseHeaders });
    const before = edge.arrivals.length;
    const text = await preflight("access-control-request-headers: x-blaxel-preview-token");
    assert.equal(parseAnswer(text).status, 204);
    assert.deepEqual(linesOf(text, "access-control-allow-origin"), ["https://app"]);
    assert.deepEqual(linesOf(text, "access-control-allow-headers"), ["x-blaxel-preview-token"]);
    assert.deepEqual(linesOf(text, "access-control-max-age"), ["5"]);
    assert.match(linesOf(text, "access-control-allow-methods").join(), /PUT/);
    assert.equal(edge.arrivals.length, before);
  }
});

test("without the owner's headers a private preview allows nothing, its sandbox API everything, and a public one what its program says", async () => {
  previews.set("shop-w1", { ...web, isPublic: false, responseHeaders: {} });
  const denied = await preflight();
  assert.deepEqual([parseAnswer(denied).status, linesOf(denied, "access-control-allow-origin")], [204, []]);
  previews.set("shop-w1", { ...web, isPublic: false, responseHeaders: {}, port: 443 });
  assert.deepEqual(linesOf(await preflight(), "access-control-allow-origin"), ["*"]);
  const before = edge.arrivals.length;
  previews.set("shop-w1", { ...web, responseHeaders: {} });
  assert.equal(parseAnswer(await preflight()).body, "inside");
  assert.equal(edge.arrivals.length, before + 1);
});

const endings: [what: string, end: () => void][] = [
  ["its token is revoked", () => tokens.clear()],
  ["its preview is deleted or expires", () => previews.clear()],
  ["its preview is another one", () => previews.set("shop-w1", { ...web, isPublic: false, previewId: "p9" })],
  ["its preview has another port", () => previews.set("shop-w1", { ...web, isPublic: false, port: 1 })],
  ["its sandbox is disabled", () => previews.set("shop-w1", { ...web, isPublic: false, enabled: false })],
];

for (const [what, end] of endings) {
  test(`an answer and a tunnel that are open end when ${what}`, async () => {
    await using open = await startEdge(
      {},
      {
        recheckIntervalMs: 10,
        answer: (response) => void response.writeHead(200).write("begun"),
        tunnel: (socket) => void socket.write("HTTP/1.1 101 Switching Protocols\r\n\r\nbegun"),
      },
    );
    previews.set("shop-w1", { ...web, isPublic: false });
    const head = ["GET / HTTP/1.1", `host: ${previewHost}`, `x-blaxel-preview-token: ${goodToken}`];
    const streaming = open.raw(`${head.join("\r\n")}\r\n\r\n`);
    const tunnelling = open.raw(`${[...head, "connection: upgrade", "upgrade: websocket"].join("\r\n")}\r\n\r\n`);
    // One that may go on beside them.
    const other = open.raw(`GET /run/preview/${madeLabel}/ HTTP/1.1\r\nhost: x\r\n\r\n`, /begun/);
    assert.match(await other, /begun/);
    await eventually(() => assert.equal(open.arrivals.length, 3));
    end();
    assert.match(await streaming, /begun/);
    assert.match(await tunnelling, /begun/);
  });
}
