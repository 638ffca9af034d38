// Previews over HTTP/2: the same rules as over HTTP/1, for tokens, headers, preflights, bodies and what is open when a token ends.
import assert from "node:assert/strict";
import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, connect, type OutgoingHttpHeaders } from "node:http2";
import { after, before, beforeEach, test } from "node:test";
import type { PreviewRoute } from "../../src/contract/host.ts";
import { apiKey, previews, startEdge, type TestEdge, tokens } from "./harness.ts";
import { goodToken, madeLabel, previewHost, webPreview } from "./preview-route.ts";

const web: PreviewRoute = {
  ...webPreview,
  requestHeaders: { "X-Tenant": "seven" },
  responseHeaders: { "X-Own": "yes" },
};

let edge: TestEdge;
let session: ClientHttp2Session;
/** What the program inside answers with; each piece waits for the next one to be asked for. */
let pieces: string[] = [];
let goOn: () => void = () => undefined;

before(async () => {
  edge = await startEdge(
    {},
    {
      recheckIntervalMs: 10,
      answer: (response) => {
        response.writeHead(200, {
          "x-own": "no",
          "x-kept": "kept",
          "set-cookie": ["a=1; Domain=x", "catnap-preview=x"],
        });
        const [first = "", ...rest] = pieces;
        response.write(first);
        goOn = () => void (rest.length === 0 ? response.end() : response.write(rest.shift()!));
        if (rest.length === 0) response.end();
      },
    },
  );
  session = connect(`http://127.0.0.1:${edge.port}`);
});
after(async () => {
  session?.destroy();
  await edge[Symbol.asyncDispose]();
});
beforeEach(() => {
  previews.clear();
  tokens.clear();
  previews.set("shop-w1", web).set(madeLabel, { ...web, previewId: "p2", isPublic: true });
  tokens.add(`p1 ${goodToken}`);
  pieces = ["inside"];
});

type Head = Record<string, string | string[] | undefined> & { ":status": number };

async function open(headers: OutgoingHttpHeaders, body?: string): Promise<{ head: Head; stream: ClientHttp2Stream }> {
  const stream = session.request({ ":authority": previewHost, ...headers }, { endStream: false }).setEncoding("utf8");
  stream.end(body);
  const [head] = (await once(stream, "response")) as [Head];
  return { head, stream };
}

async function ask(headers: OutgoingHttpHeaders, body?: string): Promise<{ head: Head; text: string; code?: string }> {
  const { head, stream } = await open(headers, body);
  const text = (await stream.toArray()).join("");
  return { head, text, code: head[":status"] >= 400 ? JSON.parse(text).error.code : undefined };
}

const arrived = () => JSON.stringify(edge.arrivals.at(-1));

test("a private preview opens with a token in header, query or cookie, of which the program sees nothing", async () => {
  const ways: OutgoingHttpHeaders[] = [
    { "x-blaxel-preview-token": goodToken },
    { ":path": `/a?b&bl_preview_token=${goodToken}` },
    { ":path": "/?bl%5Fpreview%5Ftoken=pt%5Fgood" },
    { cookie: ["a=1", `catnap-preview=${goodToken}`, "b=2"] },
  ];
  for (const headers of ways) {
    const { head, text } = await ask(headers);
    assert.deepEqual([head[":status"], text], [200, "inside"], JSON.stringify(headers));
    assert.doesNotMatch(arrived(), /good|x-blaxel/i);
    assert.match(arrived(), /"X-Tenant","seven"/);
  }
});

test("without a good token there is no answer from inside", async () => {
  const before = edge.arrivals.length;
  const refusals: [headers: OutgoingHttpHeaders, code: string][] = [
    [{}, "PREVIEW_TOKEN_REQUIRED"],
    [{ authorization: `Bearer ${apiKey}` }, "PREVIEW_TOKEN_REQUIRED"],
    [{ "x-blaxel-preview-token": "pt_bad" }, "PREVIEW_TOKEN_INVALID"],
    [{ "x-blaxel-preview-token": apiKey }, "PREVIEW_TOKEN_INVALID"],
    [{ "x-blaxel-preview-token": [goodToken, "x"] }, "PREVIEW_TOKEN_INVALID"],
    [{ ":path": `/?bl_preview_token=x&bl_preview_token=${goodToken}` }, "PREVIEW_TOKEN_INVALID"],
    [
      { cookie: `catnap-preview=${goodToken}`, "sec-fetch-site": "same-site", "sec-fetch-mode": "cors" },
      "PREVIEW_TOKEN_REQUIRED",
    ],
    [{ cookie: `catnap-preview=${goodToken}`, origin: "null" }, "PREVIEW_TOKEN_REQUIRED"],
  ];
  for (const [headers, code] of refusals) {
    const answer = await ask(headers);
    assert.deepEqual([answer.head[":status"], answer.code], [401, code], JSON.stringify(headers));
    assert.equal(answer.head["x-own"], "yes");
  }
  tokens.clear();
  assert.equal((await ask({ "x-blaxel-preview-token": goodToken })).code, "PREVIEW_TOKEN_INVALID");
  previews.clear();
  assert.equal((await ask({ "x-blaxel-preview-token": goodToken })).code, "WORKLOAD_NOT_FOUND");
  assert.equal(edge.arrivals.length, before);
});

test("a public preview opens to everybody, with its owner's headers and without the platform's credentials", async () => {
  const authorization = [`Bearer ${apiKey}`, `Basic ${Buffer.from(`u:${apiKey}`).toString("base64")}`];
  for (const value of authorization) {
    const { head, text } = await ask({
      ":authority": "127.0.0.1",
      ":path": `/run/preview/${madeLabel}/x?y`,
      authorization: value,
      "x-blaxel-authorization": "Bearer x",
      "x-tenant": "eight",
      "x-forwarded-host": "evil",
      cookie: "platform=1",
    });
    assert.deepEqual([head[":status"], text, head["x-own"], head["x-kept"]], [200, "inside", "yes", "kept"]);
    assert.equal(head["set-cookie"], undefined);
    assert.match(String(head["content-security-policy"]), /^sandbox /);
    assert.equal(edge.arrivals.at(-1)!.url, "/port/3000/x?y");
    assert.doesNotMatch(arrived(), /key-of|blaxel|eight|evil|platform=1|uthorization/);
  }
  const byHost = await ask({ "x-blaxel-preview-token": goodToken });
  assert.deepEqual(byHost.head["set-cookie"], ["a=1"]);
});

test("a browser that opens a page with a token goes on with a cookie", async () => {
  const { head } = await ask({ ":path": `/x?bl_preview_token=${goodToken}`, "sec-fetch-mode": "navigate" });
  assert.deepEqual([head[":status"], head.location], [303, "/x"]);
  assert.deepEqual(head["set-cookie"], [`catnap-preview=${goodToken}; Path=/; HttpOnly; SameSite=Lax`]);
});

test("a preflight is answered with the owner's headers and reaches nothing", async () => {
  previews.set("shop-w1", { ...web, responseHeaders: { "Access-Control-Allow-Origin": "https://app" } });
  const before = edge.arrivals.length;
  const { head } = await ask({
    ":method": "OPTIONS",
    origin: "https://app",
    "access-control-request-method": "PUT",
    "access-control-request-headers": "x-blaxel-preview-token",
  });
  assert.equal(head[":status"], 204);
  assert.equal(head["access-control-allow-origin"], "https://app");
  assert.equal(head["access-control-allow-headers"], "x-blaxel-preview-token");
  assert.equal(edge.arrivals.length, before);
});

test("bodies stream both ways, and what is open ends with the token", async () => {
  const token = { "x-blaxel-preview-token": goodToken };
  const body = "x".repeat(300_000);
  const sent = await ask({ ":method": "POST", ...token }, body);
  assert.equal(sent.head[":status"], 200);
  assert.equal(edge.arrivals.at(-1)!.body, body);

  pieces = ["one", "two", "three"];
  const { stream } = await open(token);
  assert.deepEqual(await once(stream, "data"), ["one"]);
  goOn();
  assert.deepEqual(await once(stream, "data"), ["two"]);
  const other = await open({ ":authority": "127.0.0.1", ":path": `/run/preview/${madeLabel}/` });
  tokens.clear();
  // It never looks like a whole answer.
  await assert.rejects(once(stream, "end"));
  assert.notEqual(stream.rstCode, 0);
  for (let more = 0; more < 3; more++) goOn();
  assert.equal((await other.stream.toArray()).join(""), "onetwothree");
});
