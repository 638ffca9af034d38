// Whose credentials open a sandbox, in which header, and that nothing behind the edge ever sees the platform's.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { apiKey, codeOf, parseAnswer as parse, startEdge, type TestEdge } from "./harness.ts";

let edge: TestEdge;
before(async () => {
  edge = await startEdge();
});
after(() => edge[Symbol.asyncDispose]());

const request = (...headers: string[]): string[] => ["GET /run/main/sandboxes/box/x HTTP/1.1", "host: x", ...headers];
const upgrade = ["connection: upgrade", "upgrade: websocket"];

const refused: [what: string, headers: string[], code: string][] = [
  ["no credential", [], "AUTHENTICATION_REQUIRED"],
  ["an empty one", ["authorization:"], "AUTHENTICATION_REQUIRED"],
  ["a scheme alone", ["authorization: Bearer"], "AUTHENTICATION_REQUIRED"],
  ["another scheme", [`authorization: Basic ${apiKey}`], "AUTHENTICATION_REQUIRED"],
  ["no scheme", [`authorization: ${apiKey}`], "AUTHENTICATION_REQUIRED"],
  ["two in one header", [`authorization: Bearer ${apiKey}, Bearer ${apiKey}`], "AUTHENTICATION_REQUIRED"],
  ["bytes beyond ASCII", ["authorization: Bearer k\xe9y"], "AUTHENTICATION_REQUIRED"],
  ["one that is too long", [`authorization: Bearer ${"x".repeat(5_000)}`], "AUTHENTICATION_REQUIRED"],
  ["a wrong one", ["authorization: Bearer nobody"], "AUTHENTICATION_FAILED"],
  ["a wrong one first", ["authorization: Bearer nobody", `authorization: Bearer ${apiKey}`], "AUTHENTICATION_FAILED"],
  [
    "a wrong one in the platform's own header",
    ["x-blaxel-authorization: Bearer nobody", `authorization: Bearer ${apiKey}`],
    "AUTHENTICATION_FAILED",
  ],
  ["another workspace's", ["authorization: Bearer key-of-other"], "WORKLOAD_NOT_FOUND"],
];

for (const [what, headers, code] of refused) {
  for (const more of [[], upgrade]) {
    test(`${more.length === 0 ? "a request" : "an upgrade"} with ${what} is refused: ${code}`, async () => {
      const before = edge.arrivals.length;
      // An upgrade names its own connection header.
      const text = [...request(...headers, ...more), ...(more.length === 0 ? ["connection: close"] : [])].join("\r\n");
      const answer = parse(await edge.raw(`${text}\r\n\r\n`));
      assert.equal(answer.status, code === "WORKLOAD_NOT_FOUND" ? 404 : 401);
      assert.equal(codeOf(answer), code);
      assert.equal(answer.headers["www-authenticate"], answer.status === 401 ? 'Bearer realm="catnap"' : undefined);
      assert.match(answer.headers["server-timing"] ?? "", /total;dur=/);
      assert.ok(!answer.body.includes(apiKey));
      assert.equal(edge.arrivals.length, before);
    });
  }
}

test("a failure behind the credentials is told to nobody", async () => {
  const answer = await edge.ask(request("authorization: Bearer breaks"));
  assert.deepEqual([answer.status, codeOf(answer)], [500, "INTERNAL"]);
  assert.ok(!answer.body.includes("hunter2"));
});

/** Of the headers a caller sends, those that reach the sandbox besides Host and Connection. */
const accepted: [what: string, sent: string[], kept: string[]][] = [
  ["the general header", [`authorization: Bearer ${apiKey}`], []],
  ["any case of the scheme", [`AUTHORIZATION: bEaReR   ${apiKey}  `], []],
  ["the platform's own header", [`x-blaxel-authorization: Bearer ${apiKey}`], []],
  [
    "its own header beside one for the server inside",
    [`X-Blaxel-Authorization: Bearer ${apiKey}`, "Authorization: Basic aW5zaWRl"],
    ["Authorization", "Basic aW5zaWRl"],
  ],
  ["the same in both", [`x-blaxel-authorization: Bearer ${apiKey}`, `authorization: Bearer ${apiKey}`], []],
  ["the right one first and another", [`authorization: Bearer ${apiKey}`, "authorization: Bearer second"], []],
  ["rubbish in the platform's own header", ["x-blaxel-authorization: rubbish", `authorization: Bearer ${apiKey}`], []],
  [
    "the platform's other headers",
    [`authorization: Bearer ${apiKey}`, "x-blaxel-workspace: main", "x-blaxel-preview-token: t", "x-other: kept"],
    ["x-other", "kept"],
  ],
];

for (const [what, sent, kept] of accepted) {
  test(`${what} opens the sandbox, which is told ${kept.length === 0 ? "nothing of it" : kept.join(": ")}`, async () => {
    const answer = await edge.ask(request(...sent));
    assert.equal(answer.body, "from box");
    const { rawHeaders } = edge.arrivals.at(-1)!;
    const index = rawHeaders.findIndex((name) => name.toLowerCase() === "connection");
    assert.deepEqual([...rawHeaders.slice(2, index), ...rawHeaders.slice(index + 2)], kept);
  });
}

const encode = (text: string): string => Buffer.from(text).toString("base64");
/** With a credential of its own for the platform, what a caller may send by mistake to the server inside. */
const others: [what: string, values: string[]][] = [
  ["another key", ["Bearer key-of-other"]],
  ["one that is not valid any more", ["Bearer key-of-nobody"]],
  ["one without a scheme", ["key-of-other"]],
  ["one of another scheme", ["Token key-of-other"]],
  ["one after spaces and in odd case", ["bEARER    key-of-other  "]],
  ["one as a password", [`Basic ${encode("user:key-of-other")}`]],
  ["one as a user's name", [`basic ${encode("key-of-other:")}`]],
  ["one as a password with a colon", [`Basic ${encode("user:a:key-of-other")}`]],
  ["one in the URL's alphabet", [`Basic ${Buffer.from("ü?:key-of-other", "latin1").toString("base64url")}`]],
  ["one as a parameter", ['Digest username="key-of-other", realm="x"']],
  ["one in a list", ["Bearer inside, Bearer key-of-other"]],
  ["one after the server's own", ["Basic aW5zaWRl", "Bearer key-of-other"]],
  ["one before the server's own", ["Bearer key-of-other", "Basic aW5zaWRl"]],
];

for (const [what, values] of others) {
  for (const more of [[], upgrade]) {
    test(`${what} beside the platform's own header does not reach ${more.length === 0 ? "a server" : "a tunnel's server"} inside`, async () => {
      const before = edge.arrivals.length;
      const lines = values.map((value) => `Authorization: ${value}`);
      const own = [`X-Blaxel-Authorization: Bearer ${apiKey}`, "x-other: kept"];
      const text = request(...lines, ...own, ...more, ...(more.length === 0 ? ["connection: close"] : []));
      await edge.raw(`${text.join("\r\n")}\r\n\r\n`);
      assert.equal(edge.arrivals.length, before + 1);
      const { rawHeaders } = edge.arrivals.at(-1)!;
      assert.ok(!rawHeaders.some((name) => /authorization/i.test(name)), rawHeaders.join());
      assert.ok(rawHeaders.includes("kept"));
    });
  }
}

test("what only resembles a credential of the platform reaches the server inside", async () => {
  for (const value of [
    "Bearer own",
    `Basic ${encode("user:not-key-of-x")}`,
    "Bearer xkey-of-other",
    "",
    "Bearer =,;%",
  ]) {
    await edge.ask(request(`X-Blaxel-Authorization: Bearer ${apiKey}`, `Authorization: ${value}`));
    const { rawHeaders } = edge.arrivals.at(-1)!;
    assert.equal(rawHeaders[rawHeaders.indexOf("Authorization") + 1], value);
  }
});

test("a browser's preflight needs no credential and reaches no sandbox", async () => {
  const before = edge.arrivals.length;
  const preflight = ["OPTIONS /run/main/sandboxes/box/x HTTP/1.1", "host: x", "origin: https://app"];
  const answer = await edge.ask([...preflight, "access-control-request-headers: authorization, x-own"]);
  assert.equal(answer.status, 204);
  assert.equal(answer.headers["access-control-allow-origin"], "*");
  assert.equal(answer.headers["access-control-allow-headers"], "authorization, x-own");
  assert.match(answer.headers["server-timing"] ?? "", /total;dur=/);
  assert.equal(edge.arrivals.length, before);
  await edge.ask(["OPTIONS /run/main/sandboxes/box/x HTTP/1.1", "host: x", `authorization: Bearer ${apiKey}`]);
  assert.equal(edge.arrivals.at(-1)?.method, "OPTIONS");
});
