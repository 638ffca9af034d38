// Tokens of previews over HTTP: made, shown to those who may make them and to nobody else, revoked by value and by name at once.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { SealKeys } from "../../../src/core/seal-keys.ts";
import { type Answer, type Server, startServer } from "../harness.ts";
import { addPerson, addWorkspace } from "../people.ts";

let server: Server;
let label: string;
let previewId: string;
before(async () => {
  server = await startServer();
  await server.create({ name: "box" });
  const body = { metadata: { name: "web" }, spec: { port: 3000 } };
  const made = await server.call("POST", "/v0/sandboxes/box/previews", { body });
  label = made.body.spec.url.split("/").at(-1);
  previewId = (await server.controlPlane.directory.findPreview(label))!.previewId;
});
after(() => server[Symbol.asyncDispose]());

const base = "/v0/sandboxes/box/previews/web/tokens";
const create = (name: string, expiresAt?: string): Promise<Answer> =>
  server.call("POST", base, { body: { metadata: { name }, spec: { expiresAt } } });
const opens = (token: string) => server.controlPlane.directory.verifyPreviewToken(previewId, token);

test("a token is made, opens its preview and no other, and its value is shown again to who could make one", async () => {
  const made = await create("one", "2099-01-01T00:00:00+01:00");
  assert.equal(made.status, 200, made.text);
  const { token, expiresAt, expired } = made.body.spec;
  assert.match(token, /^pt_[a-z0-9]{50}$/);
  assert.deepEqual([expiresAt, expired], ["2098-12-31T23:00:00.000Z", false]);
  assert.equal(made.body.metadata.previewName, "web");
  assert.equal(await opens(token), true);
  assert.equal(await server.controlPlane.directory.verifyPreviewToken("another", token), false);
  const listed = await server.call("GET", base);
  assert.deepEqual(
    listed.body.map(({ spec }: { spec: object }) => spec),
    [{ token, expiresAt, expired: false }],
  );
  assert.deepEqual(
    [made, listed].map(({ headers }) => headers.get("cache-control")),
    ["no-store", "no-store"],
  );
  assert.equal((await create("one")).status, 409);
});

/** A key of the first administrator's with these scopes alone. */
async function keyWith(...granted: string[]): Promise<string> {
  const [user] = await server.query<{ id: string }>("select id from users where name = 'admin'");
  const [workspace] = await server.query<{ id: string }>("select id from workspaces where name = 'main'");
  const order = { owner: { user_id: user!.id }, workspaceId: workspace!.id, createdBy: "admin", granted };
  return (await server.controlPlane.identity.apiKeys.create(order, {})).apiKey;
}

test("a token's value is shown with the scope that makes tokens, whatever the role, and without it by no operation", async () => {
  const { token } = (await create("shown")).body.spec;
  const member = await addPerson(server, "member");
  for (const key of [await keyWith("sandboxes:get", "sandboxes:update"), member.apiKey, server.apiKey]) {
    assert.ok((await server.call("GET", base, { key })).text.includes(token));
  }
  const reader = await keyWith("sandboxes:get", "sandboxes:list", "sandboxes:create", "sandboxes:delete");
  const listed = await server.call("GET", base, { key: reader });
  assert.equal(listed.status, 200);
  assert.ok(listed.body.some(({ metadata }: { metadata: { name: string } }) => metadata.name === "shown"));
  assert.doesNotMatch(listed.text, /pt_/);
  assert.ok(listed.body.every(({ spec }: { spec: object }) => !("token" in spec)));
  const outsider = await addPerson(server, "outsider", { role: "none" });
  await addWorkspace(server, "elsewhere");
  const headers = { "x-blaxel-workspace": "elsewhere" };
  assert.equal((await server.call("GET", base, { headers })).status, 404);
  for (const [key, status] of [
    [await keyWith("sandboxes:update"), 403],
    [outsider.apiKey, 403],
    [null, 401],
  ] as const) {
    const answer = await server.call("GET", base, { key });
    assert.equal(answer.status, status, answer.text);
    assert.doesNotMatch(answer.text, /pt_/);
  }
});

test("a token from before values were kept opens its preview and has no value; one of another name has not its", async () => {
  const { token } = (await create("old")).body.spec;
  const shownOf = async (name: string): Promise<unknown> => {
    const { body } = await server.call("GET", base);
    return body.find(({ metadata }: { metadata: { name: string } }) => metadata.name === name)?.spec.token;
  };
  assert.equal(await shownOf("old"), token);
  await server.query("update preview_tokens set sealed_value = null where name = ?", "old");
  assert.deepEqual([await shownOf("old"), await opens(token)], [undefined, true]);
  const [row] = await server.query<{ sealed_value: string; token_hash: string }>(
    "select sealed_value, token_hash from preview_tokens where name = ?",
    "shown",
  );
  const { key } = new SealKeys(server.config.sealKey);
  assert.throws(() => key.open(row!.sealed_value, `preview-token:${previewId}/old`));
  assert.match(key.open(row!.sealed_value, `preview-token:${previewId}/shown`), /^pt_/);
});

test("a token is revoked by its value, as the official client does it, and by its name", async () => {
  for (const by of ["value", "name"]) {
    const { token } = (await create("two")).body.spec;
    assert.equal(await opens(token), true);
    const revoked = await server.call("DELETE", `${base}/${by === "value" ? token : "two"}`);
    assert.equal(revoked.status, 200, revoked.text);
    assert.equal(typeof revoked.body.message, "string");
    assert.equal(await opens(token), false);
    assert.equal((await server.call("DELETE", `${base}/${token}`)).status, 404);
  }
});

test("an expired token opens nothing and says so; one of its name takes its place", async () => {
  const { token } = (await create("brief", "2099-01-01T00:00:00Z")).body.spec;
  await server.query("update preview_tokens set expires_at = ? where name = ?", "2020-01-01T00:00:00.000Z", "brief");
  await create("unrelated");
  assert.equal(await opens(token), false);
  const { body } = await server.call("GET", base);
  const brief = body.find(({ metadata }: { metadata: { name: string } }) => metadata.name === "brief");
  assert.equal(brief.spec.expired, true);
  assert.equal((await create("brief")).status, 200);
});

test("what is no token, or no end of one, is refused", async () => {
  assert.equal((await create("Up_Per")).status, 400);
  assert.match((await create("x", "yesterday")).body.message, /spec\.expiresAt/);
  assert.match((await create("x", "2020-01-01T00:00:00Z")).body.message, /must be in the future/);
  assert.match((await server.call("POST", base, { body: {} })).body.message, /metadata/);
  for (const text of ["", "pt_", `pt_${"A".repeat(50)}`, `ck_${"a".repeat(50)}`, `pt_${"a".repeat(51)}`]) {
    assert.equal(await opens(text), false, text);
  }
  assert.equal((await server.call("DELETE", `${base}/${"x".repeat(500)}`)).status, 404);
});

test("a preview has at most 100 tokens, however many are asked for at once, and those that have expired make room", async () => {
  const body = { metadata: { name: "full" }, spec: { port: 1 } };
  await server.call("POST", "/v0/sandboxes/box/previews", { body });
  const tokens = "/v0/sandboxes/box/previews/full/tokens";
  const make = (name: string) => server.call("POST", tokens, { body: { metadata: { name } } });
  for (let n = 0; n < 90; n++) assert.equal((await make(`t${n}`)).status, 200);
  const together = await Promise.all(Array.from({ length: 30 }, (_, n) => make(`t${90 + n}`)));
  assert.equal(together.filter(({ status }) => status === 200).length, 10);
  assert.equal((await make("more")).body.error, "quota_exceeded");
  await server.query("update preview_tokens set expires_at = ? where name = ?", "2020-01-01T00:00:00.000Z", "t7");
  assert.equal((await make("more")).status, 200);
});

test("deleting the preview ends its tokens; one made again has none", async () => {
  const previews = "/v0/sandboxes/box/previews";
  const body = { metadata: { name: "gone" }, spec: { port: 1 } };
  const made = await server.call("POST", previews, { body });
  const { token } = (await server.call("POST", `${previews}/gone/tokens`, { body: { metadata: { name: "t" } } })).body
    .spec;
  const find = () => server.controlPlane.directory.findPreview(made.body.spec.url.split("/").at(-1));
  const { previewId: first } = (await find())!;
  await server.call("DELETE", `${previews}/gone`);
  assert.equal(await server.controlPlane.directory.verifyPreviewToken(first, token), false);
  await server.call("POST", previews, { body });
  const { previewId: second } = (await find())!;
  assert.equal(await server.controlPlane.directory.verifyPreviewToken(second, token), false);
  assert.deepEqual((await server.call("GET", `${previews}/gone/tokens`)).body, []);
});

test("a token whose value cannot be opened is listed without it, hides no other, still opens, and is logged once", async () => {
  const body = { metadata: { name: "damaged" }, spec: { port: 1 } };
  await server.call("POST", "/v0/sandboxes/box/previews", { body });
  const tokens = "/v0/sandboxes/box/previews/damaged/tokens";
  const values = new Map<string, string>();
  for (const name of ["whole", "moved", "altered"]) {
    const made = await server.call("POST", tokens, { body: { metadata: { name } } });
    values.set(name, made.body.spec.token);
  }
  const sealedOf = "update preview_tokens set sealed_value = (select sealed_value from preview_tokens where name = ?)";
  await server.query(`${sealedOf} where name = ?`, "whole", "moved");
  await server.query("update preview_tokens set sealed_value = ? where name = ?", "v2.damaged", "altered");
  for (let time = 0; time < 2; time++) {
    const listed = await server.call("GET", tokens);
    assert.equal(listed.status, 200, listed.text);
    const shown = listed.body.map((token: { metadata: { name: string }; spec: object }) => [
      token.metadata.name,
      "token" in token.spec,
    ]);
    assert.deepEqual(new Map(shown), new Map([...values.keys()].map((name) => [name, name === "whole"])));
  }
  const damaged = "/v0/sandboxes/box/previews/damaged";
  const label = (await server.call("GET", damaged)).body.spec.url.split("/").at(-1);
  const { previewId: id } = (await server.controlPlane.directory.findPreview(label))!;
  assert.equal(await server.controlPlane.directory.verifyPreviewToken(id, values.get("altered")!), true);
  const lines = server.logged().split("\n");
  assert.equal(lines.filter((line) => line.includes("a sealed text cannot be opened")).length, 2);
  for (const value of values.values()) assert.ok(!server.logged().includes(value));
  assert.equal((await server.call("DELETE", `${tokens}/moved`)).status, 200);
});

test("the platform's credentials are known by their look", async () => {
  const { isPlatformCredential } = server.controlPlane.directory;
  const claims = (iss: string) => `e30.${Buffer.from(JSON.stringify({ iss })).toString("base64url")}.c2ln`;
  assert.equal(isPlatformCredential(server.apiKey), true);
  assert.equal(isPlatformCredential(claims(`${server.config.origin}/v0`)), true);
  assert.equal(isPlatformCredential(claims("https://elsewhere.example")), false);
  for (const text of ["", "own", "a.b.c", "ck_short", "e30.bnVsbA.x"]) assert.equal(isPlatformCredential(text), false);
});
