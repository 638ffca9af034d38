// Previews over HTTP: made, listed, read, replaced and deleted; where their addresses lead, and what becomes of them with their sandbox.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Answer, type CallOptions, type Server, startServer } from "../harness.ts";

let server: Server;
before(async () => {
  server = await startServer();
  for (const name of ["box", "other"]) assert.equal((await server.create({ name })).status, 200);
});
after(() => server[Symbol.asyncDispose]());

const base = "/v0/sandboxes/box/previews";

function create(name: string, spec: object, { force = false, sandbox = "box", ...given }: Create = {}) {
  const body = { metadata: { name }, spec };
  return server.call("POST", `/v0/sandboxes/${sandbox}/previews${force ? "?force=true" : ""}`, { body, ...given });
}

type Create = CallOptions & { force?: boolean; sandbox?: string };

function labelOf({ body }: Answer): string {
  return (body.spec.url as string).split("/").at(-1)!;
}

const find = (answer: Answer) => server.controlPlane.directory.findPreview(labelOf(answer));

test("a preview is created, read, listed, replaced and deleted", async () => {
  const made = await create("web", { port: 3000, public: true, responseHeaders: { "X-Own": "yes" } });
  assert.equal(made.status, 200, made.text);
  const { metadata, spec, status, events } = made.body;
  assert.deepEqual([metadata.name, metadata.resourceName, metadata.resourceType], ["web", "box", "sandbox"]);
  assert.deepEqual([spec.port, spec.public, spec.region, status], [3000, true, "local", "DEPLOYED"]);
  assert.match(spec.url, /\/run\/preview\/[a-z2-7]{26}$/);
  assert.equal(events.length, 1);
  assert.equal((await find(made))?.isPublic, true);

  assert.deepEqual((await server.call("GET", `${base}/web`)).body, made.body);
  const listed = await server.call("GET", base);
  assert.deepEqual(listed.body, [made.body]);

  const changed = await server.call("PUT", `${base}/web`, {
    body: { ...made.body, spec: { ...made.body.spec, public: false, port: 443, responseHeaders: null } },
  });
  assert.equal(changed.status, 200, changed.text);
  assert.equal(changed.body.spec.url, spec.url);
  assert.equal(changed.body.spec.responseHeaders, undefined);
  assert.deepEqual([(await find(made))?.isPublic, (await find(made))?.port], [false, 443]);
  assert.equal(changed.body.events.length, 2);

  const deleted = await server.call("DELETE", `${base}/web`);
  assert.deepEqual([deleted.status, deleted.body.metadata.name, deleted.body.status], [200, "web", "TERMINATED"]);
  assert.equal(await find(made), undefined);
  assert.equal((await server.call("GET", `${base}/web`)).status, 404);
  assert.equal((await server.call("DELETE", `${base}/web`)).status, 404);
  assert.equal((await server.call("PUT", `${base}/web`, { body: made.body })).status, 404);

  const again = await create("web", { port: 1 });
  assert.equal(again.body.spec.url, spec.url, "the same name has the same address");
  await server.call("DELETE", `${base}/web`);
});

test("two previews have two addresses, and a name is taken once", async () => {
  const [one, two, elsewhere] = [
    await create("one", { port: 1 }),
    await create("two", { port: 1 }),
    await create("one", { port: 1 }, { sandbox: "other" }),
  ];
  assert.equal(new Set([one, two, elsewhere].map(labelOf)).size, 3);
  assert.equal((await create("one", { port: 2 })).status, 409);
  const forced = await create("one", { port: 2 }, { force: true });
  assert.deepEqual([forced.status, forced.body.spec.port], [200, 2]);
});

test("a prefix is in the address, taken once, and given up to force", async () => {
  const first = await create("first", { port: 1, prefixUrl: "shop" });
  assert.match(labelOf(first), /^shop-[a-z0-9]{1,9}$/);
  assert.equal((await create("second", { port: 2, prefixUrl: "shop" })).status, 409);
  const other = await create("third", { port: 3 });
  const body = { ...other.body, spec: { port: 3, prefixUrl: "shop" } };
  const refused = await server.call("PUT", `${base}/third`, { body });
  assert.equal(refused.status, 409, refused.text);
  const forced = await create("second", { port: 2, prefixUrl: "shop" }, { force: true, sandbox: "other" });
  assert.equal(forced.status, 200, forced.text);
  assert.equal(forced.body.spec.url, first.body.spec.url);
  assert.equal((await server.call("GET", `${base}/first`)).status, 404);
  assert.equal((await find(forced))?.port, 2);
});

test("the same prefix in another workspace is another address", async () => {
  assert.equal((await server.call("POST", "/v0/workspaces", { body: { name: "neighbour" } })).status, 200);
  const headers = { "x-blaxel-workspace": "neighbour" };
  assert.equal((await server.create({ name: "box" }, { headers })).status, 200);
  const ours = await create("ours", { port: 1, prefixUrl: "same" });
  const theirs = await create("ours", { port: 1, prefixUrl: "same" }, { headers, force: true });
  assert.deepEqual([ours.status, theirs.status], [200, 200], theirs.text);
  assert.notEqual(labelOf(ours), labelOf(theirs));
  assert.equal((await server.call("GET", `${base}/ours`)).status, 200);
});

const good: [what: string, spec: object][] = [
  ["the first port", { port: 1 }],
  ["the last port", { port: 65_535 }],
  ["the port of the sandbox API", { port: 443, public: false }],
  ["a prefix of 53 characters", { port: 1, prefixUrl: "p".repeat(53) }],
  ["an empty prefix", { port: 1, prefixUrl: "" }],
  ["an empty custom domain", { port: 1, customDomain: "" }],
  ["nulls", { port: 1, public: null, expires: null, ttl: null, requestHeaders: null, prefixUrl: null }],
  ["a century", { port: 1, ttl: "5200w" }],
  ["50 headers", { port: 1, requestHeaders: headers(50) }],
  ["a long value", { port: 1, responseHeaders: { x: "v".repeat(4_096) } }],
  ["CORS", { port: 1, responseHeaders: { "Access-Control-Allow-Origin": "*", "Content-Security-Policy": "x 'y'" } }],
];

function headers(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, index) => [`x-${index}`, "v"]));
}

for (const [what, spec] of good) {
  test(`${what} is accepted`, async () => {
    const made = await create("good", spec, { force: true });
    assert.equal(made.status, 200, made.text);
  });
}

const bad: [spec: object, field: RegExp][] = [
  [{}, /spec\.port is required/],
  [{ port: 0 }, /spec\.port/],
  [{ port: 65_536 }, /spec\.port/],
  [{ port: 80 }, /spec\.port must not be 80/],
  [{ port: 443, public: true }, /spec\.public must be false/],
  [{ port: 1, prefixUrl: "p".repeat(54) }, /spec\.prefixUrl/],
  [{ port: 1, prefixUrl: "-a" }, /spec\.prefixUrl/],
  [{ port: 1, prefixUrl: "a." }, /spec\.prefixUrl/],
  [{ port: 1, prefixUrl: "Up" }, /spec\.prefixUrl/],
  [{ port: 1, prefixUrl: "sbx" }, /spec\.prefixUrl/],
  [{ port: 1, prefixUrl: "sbx-box" }, /spec\.prefixUrl/],
  [{ port: 1, prefixUrl: "xn--80ak6aa92e" }, /spec\.prefixUrl/],
  [{ port: 1, expires: "2020-01-01T00:00:00Z" }, /spec\.expires must be in the future/],
  [{ port: 1, expires: "tomorrow" }, /spec\.expires/],
  [{ port: 1, ttl: "0s" }, /spec\.ttl/],
  [{ port: 1, ttl: "5201w" }, /spec\.ttl/],
  [{ port: 1, ttl: "soon" }, /spec\.ttl/],
  [{ port: 1, requestHeaders: headers(51) }, /spec\.requestHeaders/],
  [{ port: 1, requestHeaders: { "a b": "" } }, /spec\.requestHeaders/],
  [{ port: 1, requestHeaders: { "": "" } }, /spec\.requestHeaders/],
  [{ port: 1, requestHeaders: { a: "x\r\nb: y" } }, /spec\.requestHeaders\.a/],
  [{ port: 1, requestHeaders: { a: "\u00e9" } }, /spec\.requestHeaders\.a/],
  [{ port: 1, requestHeaders: { a: "1", A: "2" } }, /appears twice/],
  [{ port: 1, responseHeaders: { a: "v".repeat(4_000), b: "v".repeat(4_000) } }, /at most 6144 bytes/],
  ...["Connection", "Content-Length", "Transfer-Encoding", "TE", "Upgrade", "Host", "Authorization", "Cookie"].map(
    (name): [object, RegExp] => [
      { port: 1, requestHeaders: { [name]: "x" } },
      new RegExp(`requestHeaders.${name} cannot`),
    ],
  ),
  ...["X-Blaxel-Authorization", "X-Forwarded-For", "Sec-WebSocket-Key"].map((name): [object, RegExp] => [
    { port: 1, requestHeaders: { [name]: "x" } },
    /cannot be set/,
  ]),
  ...["Set-Cookie", "content-length", "Transfer-Encoding", "Keep-Alive", "X-Blaxel-Source", "Alt-Svc"].map(
    (name): [object, RegExp] => [{ port: 1, responseHeaders: { [name]: "x" } }, /cannot be set/],
  ),
];

for (const [spec, field] of bad) {
  test(`${JSON.stringify(spec).slice(0, 90)} is refused`, async () => {
    const refused = await create("bad", spec);
    assert.equal(refused.status, 400, refused.text);
    assert.match(refused.body.message, field);
  });
}

test("a custom domain is not available", async () => {
  const refused = await create("bad", { port: 1, customDomain: "shop.example.com" });
  assert.deepEqual([refused.status, refused.body.error], [400, "FEATURE_NOT_AVAILABLE"]);
  assert.match(refused.body.message, /spec\.customDomain/);
});

test("a name follows the rules of names and stays", async () => {
  for (const name of ["", "Up", "a_b", "x".repeat(50), "-a"]) {
    assert.equal((await create(name, { port: 1 })).status, 400, name);
  }
  assert.equal((await create("x".repeat(49), { port: 1 })).status, 200);
  await create("stays", { port: 1 });
  const moved = await server.call("PUT", `${base}/stays`, { body: { metadata: { name: "moved" }, spec: { port: 1 } } });
  assert.match(moved.body.message, /metadata\.name/);
});

test("names with slashes, dots or other bytes in them name nothing", async () => {
  await create("named", { port: 1 });
  for (const name of ["named%2F", "named%2f..%2fnamed", "%2E%2E%2Fnamed", "named%00", "__proto__", "NAMED"]) {
    for (const path of [`${base}/${name}`, `/v0/sandboxes/box%2Fprevious/previews/${name}`]) {
      assert.equal((await server.call("GET", path)).status, 404, path);
      assert.equal((await server.call("DELETE", path)).status, 404, path);
    }
    assert.equal((await server.call("GET", `${base}/${name}/tokens`)).status, 404, name);
    assert.equal((await server.call("DELETE", `${base}/named/tokens/${name}`)).status, 404, name);
  }
  assert.equal((await server.call("GET", `${base}/named`)).status, 200);
});

test("a preview whose tokens were given to look at a server does not become one of the sandbox API", async () => {
  await create("turned", { port: 3000 });
  const put = (port: number) =>
    server.call("PUT", `${base}/turned`, { body: { metadata: { name: "turned" }, spec: { port } } });
  const token = { metadata: { name: "visitor" } };
  assert.equal((await server.call("POST", `${base}/turned/tokens`, { body: token })).status, 200);
  const refused = await put(443);
  assert.equal(refused.status, 409, refused.text);
  assert.match(refused.body.message, /spec\.port must not become 443 while the preview has tokens/);
  assert.equal((await put(3001)).status, 200);
  await server.query("update preview_tokens set expires_at = ? where name = ?", "2020-01-01T00:00:00.000Z", "visitor");
  assert.equal((await put(443)).status, 200);
  // Those of a session stay good for whatever less it becomes, and for the session.
  await server.call("POST", `${base}/turned/tokens`, { body: { metadata: { name: "runner" } } });
  assert.equal((await put(443)).status, 200);
  assert.equal((await put(3000)).status, 200);
});

test("a sandbox that is not there has no previews", async () => {
  for (const sandbox of ["nobody", "Not_A_Name"]) {
    assert.equal((await create("a", { port: 1 }, { sandbox })).status, 404);
    assert.equal((await server.call("GET", `/v0/sandboxes/${sandbox}/previews`)).status, 404);
  }
});

test("from the moment it expires a preview does not exist, and its name and prefix are free", async () => {
  const { query } = server;
  const made = await create("brief", { port: 1, prefixUrl: "brief", ttl: "1h" });
  assert.ok(await find(made));
  // As if the hour were over: a commit of the platform makes it look again.
  await query("update previews set expires_at = ? where name = ?", new Date(Date.now() - 1).toISOString(), "brief");
  await create("good", { port: 1 }, { force: true });
  assert.equal(await find(made), undefined);
  assert.equal((await server.call("GET", `${base}/brief`)).status, 404);
  assert.equal((await server.call("GET", base)).text.includes("brief"), false);
  const again = await create("other-name", { port: 1, prefixUrl: "brief" });
  assert.equal(again.status, 200, again.text);
  assert.equal((await query("select id from previews where name = ?", "brief")).length, 0);
});

test("expired previews are removed with their tokens", async () => {
  await create("old", { port: 1, expires: "2099-01-01T00:00:00+01:00" });
  await server.call("POST", `${base}/old/tokens`, { body: { metadata: { name: "t" } } });
  await server.query("update previews set expires_at = ? where name = ?", "2020-01-01T00:00:00.000Z", "old");
  await server.controlPlane.previews.purge();
  assert.equal((await server.query("select id from previews where name = ?", "old")).length, 0);
  assert.equal((await server.query("select name from preview_tokens where name = ?", "t")).length, 0);
});

test("the earlier of expires and ttl counts, and ttl begins with the preview", async () => {
  const endOf = async (name: string): Promise<number> => {
    const [row] = await server.query<{ expires_at: string }>("select expires_at from previews where name = ?", name);
    return Date.parse(row!.expires_at);
  };
  const made = await create("ends", { port: 1, ttl: "2h", expires: "2099-01-01T00:00:00Z" });
  const createdAt = Date.parse(made.body.metadata.createdAt);
  assert.equal(await endOf("ends"), createdAt + 7_200_000);
  const changed = await server.call("PUT", `${base}/ends`, { body: { ...made.body, spec: { port: 1, ttl: "1h" } } });
  assert.equal(changed.status, 200, changed.text);
  assert.equal(await endOf("ends"), createdAt + 3_600_000);
});

test("a rebuild keeps previews; deleting the sandbox ends them at once, and the next one of its name has none", async () => {
  await server.create({ name: "short" });
  const made = await create("web", { port: 3000, prefixUrl: "short" }, { sandbox: "short" });
  const before = (await find(made))!.instanceId;
  const rebuilt = await server.call("PUT", "/v0/sandboxes/short", {
    body: { metadata: { name: "short" }, spec: { runtime: { memory: 2048 } } },
  });
  assert.equal(rebuilt.status, 200, rebuilt.text);
  assert.notEqual((await find(made))!.instanceId, before);
  assert.equal((await server.call("DELETE", "/v0/sandboxes/short")).status, 200);
  assert.equal(await find(made), undefined);
  await server.create({ name: "short" });
  assert.deepEqual((await server.call("GET", "/v0/sandboxes/short/previews")).body, []);
  assert.equal((await create("web", { port: 1, prefixUrl: "short" }, { sandbox: "short" })).status, 200);
});

test("a sandbox has at most 1000 previews", async () => {
  await server.create({ name: "many" });
  const [sandbox] = await server.query<{ id: string; workspace_id: string }>(
    "select id, workspace_id from sandboxes where name = ?",
    "many",
  );
  assert.equal((await create("p0", { port: 1 }, { sandbox: "many" })).status, 200);
  for (let start = 1; start < 999; start += 50) {
    const numbers = Array.from({ length: Math.min(50, 999 - start) }, (_, index) => start + index);
    const rows = numbers.map(
      (n) =>
        `('i${n}', '${sandbox!.workspace_id}', '${sandbox!.id}', 'p${n}', 1, 'l${n}', 1, 0, '{}', '[]', '', '', '', '')`,
    );
    await server.query(
      `insert into previews (id, workspace_id, sandbox_id, name, revision, label, port, is_public, spec, events,
        created_at, updated_at, created_by, updated_by) values ${rows.join(", ")}`,
    );
  }
  assert.equal((await create("last", { port: 1 }, { sandbox: "many" })).status, 200);
  const refused = await create("more", { port: 1 }, { sandbox: "many" });
  assert.deepEqual([refused.status, refused.body.error], [400, "quota_exceeded"], refused.text);
});

test("of many at once that want one name, one has it", async () => {
  const answers = await Promise.all(Array.from({ length: 8 }, () => create("raced", { port: 1 })));
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409, 409, 409, 409, 409, 409, 409]);
});

test("below a domain the address is a host, and unmistakably a preview", async () => {
  await using named = await startServer({
    settings: { CATNAP_SANDBOX_DOMAIN: "sandboxes.test", CATNAP_REGION: "preview" },
  });
  await named.create({ name: "box" });
  const body = { metadata: { name: "web" }, spec: { port: 1, prefixUrl: "p".repeat(53) } };
  const made = await named.call("POST", base, { body });
  const { hostname } = new URL(made.body.spec.url);
  assert.match(hostname, /^p{53}-[a-z0-9]{1,9}\.preview\.sandboxes\.test$/);
  assert.ok(hostname.split(".").every((label) => label.length <= 63));
});
