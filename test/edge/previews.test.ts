// Previews at the edge: which address leads where, who is let in, and what the program inside and the caller are told of each other.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { type Answer, apiKey, codeOf, parseAnswer, previews, startEdge, type TestEdge, tokens } from "./harness.ts";
import { goodToken, madeLabel, previewHost, webPreview } from "./preview-route.ts";

let edge: TestEdge;
before(async () => {
  edge = await startEdge();
});
after(() => edge[Symbol.asyncDispose]());
beforeEach(() => {
  previews.clear();
  tokens.clear();
  previews.set("shop-w1", webPreview).set(madeLabel, { ...webPreview, previewId: "p2", isPublic: true });
  tokens.add(`p1 ${goodToken}`);
});

/** By path form on a public preview unless told otherwise. */
function ask(target: string, ...headers: string[]): Promise<Answer> {
  const own = headers.some((header) => header.startsWith("host:")) ? [] : ["host: 127.0.0.1"];
  return edge.ask([`GET ${target} HTTP/1.1`, ...own, ...headers]);
}

function askHost(target: string, ...headers: string[]): Promise<Answer> {
  return ask(target, `host: ${previewHost}`, ...headers);
}

const sent = (name: string): string[] => {
  const { rawHeaders } = edge.arrivals.at(-1)!;
  return rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1]!.toLowerCase() === name);
};

const reaching: [target: string, url: string][] = [
  ["", "/port/3000/"],
  ["/", "/port/3000/"],
  ["?a=b", "/port/3000/?a=b"],
  ["/a%2Fb//c?d#", "/port/3000/a%2Fb//c?d#"],
  ["/../../v0/sandboxes", "/port/3000/../../v0/sandboxes"],
  ["/port/22/x", "/port/3000/port/22/x"],
  ["/v0/sandboxes", "/port/3000/v0/sandboxes"],
  ["/?a=1&bl_preview_token=x&b=2", "/port/3000/?a=1&b=2"],
  ["/?bl%5fpreview_token=x&bl_preview_token", "/port/3000/"],
  ["/?a=%zz&bl_preview_tokens=x", "/port/3000/?a=%zz&bl_preview_tokens=x"],
];

for (const [target, url] of reaching) {
  test(`${target || "nothing"} below a public preview reaches its port`, async () => {
    assert.equal((await ask(`/run/preview/${madeLabel}${target}`)).body, "from box");
    assert.equal(edge.arrivals.at(-1)?.url, url);
  });
}

const nowhere: [target: string, host: string][] = [
  [`/run/preview/${"z".repeat(26)}/`, "x"],
  ["/run/preview/unknown-w1/", "x"],
  ["/", "unknown-w1.preview.sandboxes.test"],
  ["/v0/sandboxes", "unknown-w1.preview.sandboxes.test"],
  ["/v0/sandboxes", "preview.preview.sandboxes.test"],
  ["/", "a.b.preview.sandboxes.test"],
  ["/", ".preview.sandboxes.test"],
  ["/", `${"x".repeat(64)}.preview.sandboxes.test`],
  ["/", "shop_w1.preview.sandboxes.test"],
];

for (const [target, name] of nowhere) {
  test(`${name}${target} is no preview, and nothing of the platform either`, async () => {
    const answer = await ask(target, `host: ${name}`);
    assert.deepEqual([answer.status, codeOf(answer)], [404, "WORKLOAD_NOT_FOUND"]);
  });
}

test("a host below the previews' domain leads to its preview whatever its case, port and final dot", async () => {
  for (const name of [previewHost, previewHost.toUpperCase(), `${previewHost}:4000`, `${previewHost}.`]) {
    const answer = await ask("/v0/x", `host: ${name}`, `x-blaxel-preview-token: ${goodToken}`);
    assert.equal(answer.body, "from box", name);
    assert.equal(edge.arrivals.at(-1)?.url, "/port/3000/v0/x");
  }
});

test("a workspace called preview keeps its sandboxes' addresses, and a region its hosts", async () => {
  assert.equal(codeOf(await ask("/run/preview/sandboxes/box/")), "AUTHENTICATION_REQUIRED");
  assert.equal(codeOf(await ask("/", "host: sbx-box-w1.preview.sandboxes.test")), "AUTHENTICATION_REQUIRED");
});

const refusals: [what: string, target: string, headers: string[], code: string][] = [
  ["nothing", "/", [], "PREVIEW_TOKEN_REQUIRED"],
  ["the platform's key", "/", [`authorization: Bearer ${apiKey}`], "PREVIEW_TOKEN_REQUIRED"],
  ["the platform's key as token", "/", [`x-blaxel-preview-token: ${apiKey}`], "PREVIEW_TOKEN_INVALID"],
  ["an unknown token", "/", ["x-blaxel-preview-token: pt_bad"], "PREVIEW_TOKEN_INVALID"],
  [
    "an empty header and a good query",
    `/?bl_preview_token=${goodToken}`,
    ["x-blaxel-preview-token:"],
    "PREVIEW_TOKEN_INVALID",
  ],
  [
    "a bad header and a good query",
    `/?bl_preview_token=${goodToken}`,
    ["x-blaxel-preview-token: x"],
    "PREVIEW_TOKEN_INVALID",
  ],
  ["two headers", "/", [`x-blaxel-preview-token: ${goodToken}`, "x-blaxel-preview-token: x"], "PREVIEW_TOKEN_INVALID"],
  ["a bad query before a good one", `/?bl_preview_token=x&bl_preview_token=${goodToken}`, [], "PREVIEW_TOKEN_INVALID"],
  [
    "a bad query and a good cookie",
    "/?bl_preview_token=x",
    [`cookie: catnap-preview=${goodToken}`],
    "PREVIEW_TOKEN_INVALID",
  ],
  ["a token in the fragment of a path", `/%3Fbl_preview_token=${goodToken}`, [], "PREVIEW_TOKEN_REQUIRED"],
  ["another program's cookie", "/", [`cookie: xcatnap-preview=${goodToken}`], "PREVIEW_TOKEN_REQUIRED"],
  ["a very long token", `/?bl_preview_token=${"x".repeat(5_000)}`, [], "PREVIEW_TOKEN_INVALID"],
  [
    "a cookie that another preview's page makes the browser send",
    "/",
    [`cookie: catnap-preview=${goodToken}`, "sec-fetch-site: same-site", "sec-fetch-mode: cors"],
    "PREVIEW_TOKEN_REQUIRED",
  ],
  [
    "the same in a browser that does not say so",
    "/",
    [`cookie: catnap-preview=${goodToken}`, "origin: http://evil-w1.preview.sandboxes.test"],
    "PREVIEW_TOKEN_REQUIRED",
  ],
];

for (const [what, target, headers, code] of refusals) {
  for (const upgrade of [[], ["connection: upgrade", "upgrade: websocket"]]) {
    test(`${what} does not open a private preview${upgrade.length > 0 ? " to a tunnel" : ""}`, async () => {
      const before = edge.arrivals.length;
      const lines = [`GET ${target} HTTP/1.1`, `host: ${previewHost}`, ...headers, ...upgrade];
      if (upgrade.length === 0) lines.push("connection: close");
      const answer = parseAnswer(await edge.raw(`${lines.join("\r\n")}\r\n\r\n`));
      assert.deepEqual([answer.status, codeOf(answer)], [401, code]);
      assert.equal(answer.headers["www-authenticate"], 'X-Blaxel-Preview-Token realm="catnap"');
      assert.equal(edge.arrivals.length, before);
    });
  }
}

const opening: [what: string, target: string, headers: string[], url: string][] = [
  ["a header", "/a?b", [`X-BLAXEL-Preview-Token: ${goodToken}`], "/port/3000/a?b"],
  ["the query", `/a?b&bl_preview_token=${goodToken}&c`, [], "/port/3000/a?b&c"],
  ["the query, escaped", `/?bl%5Fpreview%5Ftoken=pt%5Fgood`, [], "/port/3000/"],
  ["a cookie", "/", [`cookie: a=1; catnap-preview=${goodToken}; b=2`], "/port/3000/"],
  ["a cookie beside a planted one", "/", [`cookie: catnap-preview=x; catnap-preview=${goodToken}`], "/port/3000/"],
  [
    "a cookie of its own page",
    "/",
    [`cookie: catnap-preview=${goodToken}`, `origin: http://${previewHost}`],
    "/port/3000/",
  ],
  [
    "a cookie when a page of elsewhere links to it",
    "/",
    [`cookie: catnap-preview=${goodToken}`, "sec-fetch-site: cross-site", "sec-fetch-mode: navigate"],
    "/port/3000/",
  ],
];

for (const [what, target, headers, url] of opening) {
  test(`a token in ${what} opens a private preview and is taken out`, async () => {
    const answer = await askHost(target, ...headers, "x-blaxel-other: x");
    assert.equal(answer.body, "from box");
    const arrival = edge.arrivals.at(-1)!;
    assert.equal(arrival.url, url);
    assert.ok(!JSON.stringify(arrival).includes("good"), JSON.stringify(arrival));
    assert.ok(!JSON.stringify(arrival).toLowerCase().includes("x-blaxel"));
  });
}

test("a token of one preview opens no other", async () => {
  previews.set("other-w1", { ...webPreview, previewId: "p3" });
  const answer = await ask("/", "host: other-w1.preview.sandboxes.test", `x-blaxel-preview-token: ${goodToken}`);
  assert.equal(codeOf(answer), "PREVIEW_TOKEN_INVALID");
});

test("the program's own credentials and cookies reach it, the platform's never do", async () => {
  const token = `x-blaxel-preview-token: ${goodToken}`;
  await askHost("/", token, "authorization: Bearer own", "cookie: a=1; b=2");
  assert.deepEqual([sent("authorization"), sent("cookie")], [["Bearer own"], ["a=1; b=2"]]);
  await askHost("/", token, "authorization: Basic b3duOm93bg==");
  assert.deepEqual(sent("authorization"), ["Basic b3duOm93bg=="]);
  const basic = Buffer.from(`user:${apiKey}`).toString("base64");
  for (const platform of [`Bearer ${apiKey}`, `bearer   ${apiKey} `, `Basic ${basic}`, `Token ${apiKey}`]) {
    await askHost(
      "/",
      token,
      "authorization: Bearer own",
      `authorization: ${platform}`,
      "X-Blaxel-Authorization: Bearer x",
      "x-blaxel-workspace: main",
    );
    assert.ok(!edge.arrivals.at(-1)!.rawHeaders.some((text) => /x-blaxel|key-of|^basic/i.test(text)));
  }
});

test("below a path of the platform no cookie goes in or out", async () => {
  await ask(`/run/preview/${madeLabel}/`, "cookie: _session=platform; other-preview=1");
  assert.deepEqual(sent("cookie"), []);
});

test("the address is told as it is, whatever the caller claims of it", async () => {
  await askHost(
    "/",
    `x-blaxel-preview-token: ${goodToken}`,
    "x-forwarded-host: evil",
    "x-forwarded-proto: gopher",
    "x-forwarded-prefix: /evil",
  );
  assert.deepEqual(
    [sent("x-forwarded-host"), sent("x-forwarded-proto"), sent("x-forwarded-prefix")],
    [[previewHost], ["http"], []],
  );
  await askHost(
    "/",
    `x-blaxel-preview-token: ${goodToken}`,
    `referer: http://${previewHost}/?bl_preview_token=${goodToken}&a`,
  );
  assert.deepEqual(sent("referer"), [`http://${previewHost}/?a`]);
  for (const query of [
    `?bl%5fpreview_token=${goodToken}`,
    `?a&bl_preview%5ftoken=${goodToken}#x`,
    `?bl_preview_token=${goodToken}#`,
  ]) {
    const twice = [`referer: http://${previewHost}/`, `referer: http://${previewHost}/${query}`];
    await askHost("/", `x-blaxel-preview-token: ${goodToken}`, twice[1]!);
    assert.ok(!sent("referer").join().includes(goodToken), query);
    await askHost("/", `x-blaxel-preview-token: ${goodToken}`, ...twice);
    assert.deepEqual(sent("referer"), [`http://${previewHost}/`]);
  }
  await askHost("/", `x-blaxel-preview-token: ${goodToken}`, `referer: http://${previewHost}/a?b#c`);
  assert.deepEqual(sent("referer"), [`http://${previewHost}/a?b`]);
});

test("headers of the preview take the place of the caller's", async () => {
  previews.set("shop-w1", { ...webPreview, isPublic: true, requestHeaders: { "X-Tenant": "seven" } });
  await askHost("/", "x-tenant: eight", "X-TENANT: nine");
  assert.deepEqual(sent("x-tenant"), ["seven"]);
});

test("a preview of the sandbox API leads to the sandbox API, and no credential but its token", async () => {
  previews.set("shop-w1", { ...webPreview, port: 443 });
  await askHost("/process?x", `x-blaxel-preview-token: ${goodToken}`, "authorization: Bearer own");
  assert.equal(edge.arrivals.at(-1)!.url, "/process?x");
  assert.deepEqual(sent("authorization"), []);
});

test("what is disabled, or not there yet, is told to those who may know", async () => {
  const token = `x-blaxel-preview-token: ${goodToken}`;
  previews.set("shop-w1", { ...webPreview, enabled: false });
  assert.equal(codeOf(await askHost("/", token)), "FORBIDDEN");
  assert.equal(codeOf(await askHost("/")), "PREVIEW_TOKEN_REQUIRED");
  previews.set("shop-w1", { ...webPreview, status: "FAILED" });
  assert.equal(codeOf(await askHost("/", token)), "WORKLOAD_UNAVAILABLE");
});

test("a target that is no path is refused", async () => {
  const answer = await edge.ask(["OPTIONS * HTTP/1.1", `host: ${previewHost}`, `x-blaxel-preview-token: ${goodToken}`]);
  assert.deepEqual([answer.status, codeOf(answer)], [400, "BAD_REQUEST"]);
});
