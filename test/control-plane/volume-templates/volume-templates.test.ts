// Volume templates over HTTP: created, replaced, listed and deleted with their versions, within the workspace's limits.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { initialize, listVolumeTemplates, updateVolumeTemplate } from "@blaxel/core";
import { type Server, startServer, until } from "../harness.ts";
import { askUpload, send, smallArchive } from "./uploading.ts";

const base = "/v0/volume_templates";

async function create(server: Server, name: string, spec: object = {}, metadata: object = {}) {
  return server.call("POST", base, { body: { metadata: { name, ...metadata }, spec } });
}

test("a template is created, read, replaced and deleted", async () => {
  await using server = await startServer();
  const spec = { defaultSize: 2_048, description: "node modules" };
  const created = await create(server, "deps", spec, { displayName: "Deps", labels: { team: "a" }, externalId: "x-1" });
  assert.equal(created.status, 200, created.text);
  assert.deepEqual(created.body.spec, spec);
  assert.deepEqual(created.body.state, { status: "created", versionCount: 0 });
  assert.deepEqual(created.body.versions, []);
  assert.equal(created.body.metadata.workspace, "main");
  assert.deepEqual((await server.call("GET", `${base}/deps`)).body, created.body);
  assert.deepEqual((await server.call("GET", base)).body, [created.body]);

  // Whole objects come back, with members that are the platform's and members nobody knows.
  const echoed = {
    ...created.body,
    unknown: 1,
    metadata: { ...created.body.metadata, displayName: null },
    spec: { defaultSize: 1 },
  };
  const replaced = await server.call("PUT", `${base}/deps`, { body: echoed });
  assert.equal(replaced.status, 200, replaced.text);
  assert.deepEqual(replaced.body.spec, { defaultSize: 1 });
  assert.equal(replaced.body.metadata.displayName, undefined);
  assert.deepEqual(replaced.body.metadata.labels, { team: "a" });
  assert.equal(replaced.body.metadata.createdAt, created.body.metadata.createdAt);
  assert.equal(replaced.headers.get("x-blaxel-upload-url"), null, "nobody asked for an upload");

  const deleted = await server.call("DELETE", `${base}/deps`);
  assert.equal(deleted.status, 200);
  assert.equal(deleted.body.metadata.name, "deps");
  for (const method of ["GET", "DELETE"]) assert.equal((await server.call(method, `${base}/deps`)).status, 404, method);
});

test("replacing a template that is not there creates it; creating one that is there is 409", async () => {
  await using server = await startServer();
  assert.equal((await server.call("PUT", `${base}/new`, { body: { metadata: {}, spec: {} } })).status, 200);
  const again = await create(server, "new");
  assert.equal(again.status, 409);
  assert.equal(again.body.error, "already_exists");
  const unnamed = await server.call("POST", base, { body: { metadata: {}, spec: {} } });
  assert.match(unnamed.body.metadata.name, /^template-[a-z0-9]{8}$/);
});

test("bad input is refused with the field and the rule", async () => {
  await using server = await startServer();
  const put = (path: string, body: unknown) => server.call("PUT", `${base}${path}`, { body });
  const cases: [string, unknown, RegExp][] = [
    ["/t", { metadata: {} }, /spec is required/],
    ["/t", { spec: {} }, /metadata is required/],
    ["/t", { metadata: {}, spec: { defaultSize: 0 } }, /spec\.defaultSize must be at least 1/],
    ["/t", { metadata: {}, spec: { defaultSize: 4_194_305 } }, /spec\.defaultSize must be at most 4194304/],
    ["/t", { metadata: {}, spec: { defaultSize: 1.5 } }, /spec\.defaultSize/],
    ["/t", { metadata: {}, spec: { defaultSize: "1024" } }, /spec\.defaultSize/],
    ["/t", { metadata: {}, spec: { description: "d".repeat(1_025) } }, /spec\.description/],
    ["/t", { metadata: { name: "other" }, spec: {} }, /metadata\.name must be the name in the path/],
    ["/Bad_Name", { metadata: {}, spec: {} }, /name in the path/],
    ["/t?version=one", { metadata: {}, spec: {} }, /only for upload=true/],
    ["/t?upload=true&version=latest", { metadata: {}, spec: {} }, /must not be latest/],
    ["/t?upload=true&version=A.B", { metadata: {}, spec: {} }, /query parameter version must be lowercase/],
    ["/t?upload=maybe", { metadata: {}, spec: {} }, /query parameter upload/],
  ];
  for (const [path, body, message] of cases) {
    const { status, body: error } = await put(path, body);
    assert.equal(status, 400, `${path} ${message}`);
    assert.match(error.message, message);
  }
  assert.deepEqual((await server.call("GET", base)).body, [], "nothing was created on the way");
  assert.equal(
    (await put("/t", { metadata: {}, spec: { defaultSize: 4_194_304, description: "d".repeat(1_024) } })).status,
    200,
  );
});

test("no credential is 401, another workspace's template is not there, a workspace without membership is 403", async () => {
  await using server = await startServer();
  await create(server, "mine");
  assert.equal((await server.call("GET", base, { key: null })).status, 401);
  for (const [id, name] of [
    ["other1234", "other"],
    ["third1234", "third"],
  ]) {
    await server.query(
      `insert into workspaces (id, name, created_at) values ('${id}', '${name}', '2026-01-01T00:00:00.000Z')`,
    );
  }
  await server.query("insert into members select 'other1234', user_id, role, created_at from members");
  const headers = { "x-blaxel-workspace": "other" };
  assert.equal((await server.call("GET", base, { headers: { "x-blaxel-workspace": "third" } })).status, 403);
  assert.deepEqual((await server.call("GET", base, { headers })).body, []);
  for (const method of ["GET", "DELETE"]) {
    assert.equal((await server.call(method, `${base}/mine`, { headers })).status, 404, method);
  }
  assert.equal((await server.call("DELETE", `${base}/mine/versions/v1`, { headers })).status, 404);
  const body = { metadata: {}, spec: {} };
  assert.equal((await server.call("PUT", `${base}/mine`, { headers, body })).status, 200, "the name is free there");
  assert.equal((await server.call("GET", `${base}/mine`)).status, 200);
});

test("versions are awaited, READY and deleted; the only one stays", async () => {
  await using server = await startServer();
  const { url, answer } = await askUpload(server, "deps", "one");
  assert.equal(answer.headers.get("cache-control"), "no-store");
  const [awaited] = answer.body.versions;
  assert.deepEqual(
    { ...awaited, versionId: "" },
    {
      name: "one",
      status: "CREATED",
      versionId: "",
      templateName: "deps",
      bucket: "local",
      region: "local",
      workspace: "main",
    },
  );
  assert.equal((await send(url, smallArchive)).status, 200);
  const { body } = await server.call("GET", `${base}/deps`);
  assert.deepEqual(body.versions, [{ ...awaited, status: "READY", contentSize: smallArchive.length }]);
  assert.equal(body.state.status, "ready");
  assert.equal(body.state.latestVersion, awaited.versionId);
  assert.match(body.state.lastVersionUploadedAt, /^\d{4}-.*Z$/);

  const only = await server.call("DELETE", `${base}/deps/versions/one`);
  assert.equal(only.status, 400);
  assert.match(only.body.message, /only version/);
  await askUpload(server, "deps", "two");
  assert.equal((await server.call("DELETE", `${base}/deps/versions/none`)).status, 404);
  assert.equal((await server.call("DELETE", `${base}/none/versions/one`)).status, 404);
  const deleted = await server.call("DELETE", `${base}/deps/versions/one`);
  assert.equal(deleted.status, 200);
  assert.match(deleted.body.message, /deleted/);
  assert.deepEqual(
    deleted.body.template.versions.map(({ name }: { name: string }) => name),
    ["two"],
  );
  assert.deepEqual(deleted.body.template.state, { status: "created", versionCount: 1 });
});

test("without a name versions are numbered; asking again refreshes the URL of the one that is awaited", async () => {
  await using server = await startServer();
  const names = async (): Promise<string[]> =>
    (await server.call("GET", `${base}/deps`)).body.versions.map(({ name }: { name: string }) => name);
  let { url } = await askUpload(server, "deps");
  for (let times = 0; times < 5; times++) ({ url } = await askUpload(server, "deps"));
  assert.deepEqual(await names(), ["v1"]);
  assert.equal((await send(url, smallArchive)).status, 200);
  await askUpload(server, "deps", "v2");
  await askUpload(server, "deps");
  assert.deepEqual((await names()).sort(), ["v1", "v2", "v3"]);
});

test("a version that is READY never changes: asking to upload it again is 409", async () => {
  await using server = await startServer();
  const { url } = await askUpload(server, "deps", "one");
  assert.equal((await send(url, smallArchive)).status, 200);
  const body = { metadata: {}, spec: {} };
  const again = await server.call("PUT", `${base}/deps?upload=true&version=one`, { body });
  assert.equal(again.status, 409);
  assert.equal((await send(url, smallArchive)).status, 409, "nor does the old URL change it");
  assert.equal((await server.call("GET", `${base}/deps`)).body.versions[0].status, "READY");
});

test("templates and versions are limited; what is there may still be replaced", async () => {
  const settings = { CATNAP_VOLUME_TEMPLATES_MAX: "2", CATNAP_VOLUME_TEMPLATE_VERSIONS_MAX: "2" };
  await using server = await startServer({ settings });
  await create(server, "a");
  const answers = await Promise.all(["b", "c", "d", "e"].map((name) => create(server, name)));
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 403, 403, 403]);
  assert.equal(answers.find(({ status }) => status === 403)?.body.error, "quota_exceeded");
  const asked = await Promise.all(
    ["1", "2", "3", "4"].map((version) =>
      server.call("PUT", `${base}/a?upload=true&version=${version}`, { body: { metadata: {}, spec: {} } }),
    ),
  );
  assert.deepEqual(asked.map(({ status }) => status).sort(), [200, 200, 403, 403]);
  assert.equal(
    (await server.call("PUT", `${base}/a`, { body: { metadata: {}, spec: { defaultSize: 7 } } })).status,
    200,
  );
});

test("a workspace with templates cannot be deleted; without them it can, and their files are gone", async () => {
  await using server = await startServer({ volumeTemplates: { sweepIntervalMs: 10 } });
  assert.equal((await server.call("POST", "/v0/workspaces", { body: { name: "second" } })).status, 200);
  const headers = { "x-blaxel-workspace": "second" };
  const body = { metadata: {}, spec: {} };
  const asked = await server.call("PUT", `${base}/deps?upload=true`, { headers, body });
  assert.equal((await send(asked.headers.get("x-blaxel-upload-url") ?? "", smallArchive)).status, 200);
  const refused = await server.call("DELETE", "/v0/workspaces/second");
  assert.equal(refused.status, 409);
  assert.match(refused.body.message, /1 volumetemplates/);
  const objects = join(server.dataDir, "volume-templates", "objects");
  assert.equal(readdirSync(objects).length, 1);
  assert.equal((await server.call("DELETE", `${base}/deps`, { headers })).status, 200);
  assert.equal((await server.call("DELETE", "/v0/workspaces/second")).status, 200);
  await until("the file is gone", () => readdirSync(objects).length === 0);
  assert.deepEqual(await server.query("select name from volume_templates"), []);
});

test("the official client lists templates and asks for uploads", async () => {
  await using server = await startServer();
  initialize({ apikey: server.apiKey, workspace: "main", baseUrl: `${server.url}/v0` } as never);
  const options = { baseUrl: `${server.url}/v0`, headers: { "x-blaxel-authorization": `Bearer ${server.apiKey}` } };
  const updated = await updateVolumeTemplate({
    ...options,
    path: { volumeTemplateName: "deps" },
    query: { upload: true, version: "one" },
    body: { metadata: { name: "deps" }, spec: { defaultSize: 1_024 } },
  });
  const url = updated.response.headers.get("x-blaxel-upload-url") ?? assert.fail("no upload URL");
  assert.equal((await send(url, smallArchive)).status, 200);
  const { data } = await listVolumeTemplates(options);
  assert.equal(data?.[0]?.state?.status, "ready");
  assert.equal(data?.[0]?.versions?.[0]?.contentSize, smallArchive.length);
});
