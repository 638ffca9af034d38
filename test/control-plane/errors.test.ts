// Every way to be refused has the right status and the right body.
import assert from "node:assert/strict";
import { request as httpRequest } from "node:http";
import { test } from "node:test";
import { type Answer, startServer } from "./harness.ts";

function assertGeneral(answer: Answer, status: number, error: string): void {
  assert.equal(answer.status, status, answer.text);
  assert.deepEqual(Object.keys(answer.body).sort(), ["code", "error", "message"]);
  assert.equal(answer.body.error, error);
  assert.equal(answer.body.code, status);
  assert.match(answer.headers.get("content-type") ?? "", /^application\/json/);
  assert.match(answer.headers.get("server-timing") ?? "", /total;dur=/);
}

function assertSandboxError(answer: Answer, status: number, code: string): void {
  assert.equal(answer.status, status, answer.text);
  assert.equal(answer.body.code, code);
  assert.equal(answer.body.status_code, status);
  assert.equal(typeof answer.body.message, "string");
  assert.equal(typeof answer.body.error, "string");
  assert.equal(typeof answer.body.step, "string");
  assert.ok(!Number.isNaN(Date.parse(answer.body.timestamp)));
  assert.match(answer.headers.get("content-type") ?? "", /^application\/json/);
  assert.match(answer.headers.get("server-timing") ?? "", /total;dur=/);
}

test("reading, listing and deleting answer with the general error body", async () => {
  await using server = await startServer();
  assertGeneral(await server.call("GET", "/v0/sandboxes/nobody"), 404, "not_found");
  assertGeneral(await server.call("DELETE", "/v0/sandboxes/nobody"), 404, "not_found");
  assertGeneral(await server.call("GET", "/v0/sandboxes/Not_A_Name"), 404, "not_found");
  assertGeneral(await server.call("GET", `/v0/sandboxes/${"a".repeat(50)}`), 404, "not_found");
  assertGeneral(await server.call("GET", `/v0/sandboxes/${"a".repeat(5_000)}`), 404, "not_found");
  assertGeneral(await server.call("GET", "/v0/sandboxes/a%2Fb"), 404, "not_found");
  assertGeneral(await server.call("GET", "/v0/sandboxes/%zz"), 400, "invalid_request");
  assertGeneral(await server.call("GET", "/v0/sandboxes/"), 404, "not_found");
  assertGeneral(await server.call("GET", "/v0/nothing"), 404, "not_found");
  assertGeneral(await server.call("PATCH", "/v0/sandboxes/nobody"), 405, "method_not_allowed");
  assertGeneral(await server.call("GET", "/"), 404, "not_found");
  assertGeneral(await server.call("GET", "/v0/sandboxes", { key: null }), 401, "unauthenticated");
  assertGeneral(await server.call("GET", "/v0/sandboxes?limit=0"), 400, "invalid_request");
});

test("a type without a body is no reason to refuse a request that needs none", async () => {
  await using server = await startServer();
  const headers = { "content-type": "application/json" };
  assert.equal((await server.create({ name: "one" })).status, 200);
  assert.equal((await server.call("GET", "/v0/sandboxes/one", { headers })).status, 200);
  assert.equal((await server.call("DELETE", "/v0/sandboxes/one", { headers })).status, 200);
  assertSandboxError(await server.call("POST", "/v0/sandboxes", { headers, rawBody: "" }), 400, "INVALID_REQUEST");
});

test("an unknown interface version is refused, the known ones are not", async () => {
  await using server = await startServer();
  const at = (version: string) => server.call("GET", "/v0/sandboxes", { headers: { "blaxel-version": version } });
  assertGeneral(await at("2020-01-01"), 400, "invalid_api_version");
  assertGeneral(await at("latest"), 400, "invalid_api_version");
  assert.deepEqual((await at("2026-04-16")).body, []);
  assert.deepEqual((await at("2026-04-28")).body, { data: [], meta: { hasMore: false, total: 0 } });
});

test("creating answers with the sandbox error body, whoever refuses", async () => {
  await using server = await startServer({ config: { bodyMaxBytes: 4_096 } });
  const post = (options: Parameters<typeof server.call>[2]) => server.call("POST", "/v0/sandboxes", options);
  const json = { "content-type": "application/json" };
  const body = { metadata: { name: "one" }, spec: {} };
  assertSandboxError(await post({ body, key: null }), 401, "UNAUTHENTICATED");
  assertSandboxError(await post({ body, headers: { "x-blaxel-workspace": "nope" } }), 404, "NOT_FOUND");
  assertSandboxError(await post({ rawBody: '{"metadata": {"name": hush}}', headers: json }), 400, "INVALID_REQUEST");
  assertSandboxError(await post({ rawBody: "", headers: json }), 400, "INVALID_REQUEST");
  assertSandboxError(await post({}), 400, "INVALID_REQUEST");
  assertSandboxError(await post({ body: [] }), 400, "INVALID_REQUEST");
  assertSandboxError(await post({ body: {} }), 400, "INVALID_REQUEST");
  assertSandboxError(
    await post({ rawBody: "a=b", headers: { "content-type": "text/plain" } }),
    415,
    "UNSUPPORTED_MEDIA_TYPE",
  );
  const large = { ...body, padding: "x".repeat(5_000) };
  assertSandboxError(await post({ body: large }), 413, "TOO_LARGE");
  assert.equal((await post({ body })).status, 200);
  const conflict = await post({ body });
  assertSandboxError(conflict, 409, "SANDBOX_ALREADY_EXISTS");
  assert.equal(conflict.body.sandbox_name, "one");
  assert.equal(conflict.body.workspace, "main");
  assert.equal(conflict.body.reason, undefined);
});

test("an unknown image is refused with the names of known ones, and leaves no record", async () => {
  await using server = await startServer();
  const answer = await server.create({ name: "picky", spec: { runtime: { image: "no/such:image" } } });
  assertSandboxError(answer, 400, "INVALID_IMAGE");
  assert.equal(answer.body.details.requested_image, "no/such:image");
  assert.deepEqual(answer.body.details.supported_images, server.host.listImages());
  assert.equal((await server.call("GET", "/v0/sandboxes/picky")).status, 404);
  assert.deepEqual((await server.call("GET", "/v0/sandboxes?showTerminated=true")).body, []);
});

test("a workspace with its most sandboxes is refused another until one is deleted", async () => {
  await using server = await startServer({ config: { sandboxesMax: 2 } });
  await server.create({ name: "one" });
  await server.create({ name: "two" });
  assertSandboxError(await server.create({ name: "three" }), 400, "QUOTA_EXCEEDED");
  await server.call("DELETE", "/v0/sandboxes/one");
  assert.equal((await server.create({ name: "three" })).status, 200);
});

test("a conflict with a creation under way says so", async () => {
  await using server = await startServer();
  const reached = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  server.host.onCreate = () => {
    reached.resolve();
    return release.promise;
  };
  const first = server.create({ name: "busy" });
  await reached.promise;
  const second = await server.create({ name: "busy" });
  assertSandboxError(second, 409, "SANDBOX_ALREADY_EXISTS");
  assert.equal(second.body.reason, "CREATION_IN_PROGRESS");
  release.resolve();
  assert.equal((await first).status, 200);
});

test("a body that nests without end is refused without harm", async () => {
  await using server = await startServer();
  const deep = `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`;
  const headers = { "content-type": "application/json" };
  const labels = await server.call("POST", "/v0/sandboxes", {
    rawBody: `{"metadata":{"labels":{"x":${deep}}},"spec":{}}`,
    headers,
  });
  assertSandboxError(labels, 400, "INVALID_REQUEST");
  const ignored = await server.call("POST", "/v0/sandboxes", {
    rawBody: `{"metadata":{},"spec":{},"x":${deep}}`,
    headers,
  });
  assert.equal(ignored.status, 200);
  const prototype = await server.call("POST", "/v0/sandboxes", {
    rawBody: '{"metadata":{"labels":{"__proto__":"x"}},"spec":{}}',
    headers,
  });
  assertSandboxError(prototype, 400, "INVALID_REQUEST");
});

test("messages about a body that is no JSON do not quote it", async () => {
  await using server = await startServer();
  const answer = await server.call("POST", "/v0/sandboxes", {
    rawBody: "hunter2hunter2",
    headers: { "content-type": "application/json" },
  });
  assert.equal(answer.status, 400);
  assert.ok(!answer.text.includes("hunter2"));
  assert.ok(!server.logged().includes("hunter2"));
});

test("a repeated query parameter is refused", async () => {
  await using server = await startServer();
  assertGeneral(await server.call("GET", "/v0/sandboxes?limit=1&limit=2"), 400, "invalid_request");
  assertGeneral(await server.call("GET", "/v0/sandboxes?workspace=main&workspace=b"), 400, "invalid_request");
});

test("every success carries the phases it spent", async () => {
  await using server = await startServer();
  const created = await server.create({ name: "timed" });
  assert.match(
    created.headers.get("server-timing") ?? "",
    /^auth;dur=[\d.]+, store;dur=[\d.]+, claim;dur=[\d.]+, total;dur=/,
  );
  const read = await server.call("GET", "/v0/sandboxes/timed");
  assert.match(read.headers.get("server-timing") ?? "", /^auth;dur=[\d.]+, store;dur=[\d.]+, total;dur=/);
  const list = await server.call("GET", "/v0/sandboxes");
  assert.match(list.headers.get("server-timing") ?? "", /store;dur=/);
});

test("HEAD is answered like GET without a body", async () => {
  await using server = await startServer();
  await server.create({ name: "head" });
  const status = await new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${server.apiKey}` };
    httpRequest(`${server.url}/v0/sandboxes/head`, { method: "HEAD", headers }, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .on("error", reject)
      .end();
  });
  assert.equal(status, 200);
});

test("a method that a path does not take is 405 and names those it takes", async () => {
  await using server = await startServer();
  const answer = await server.call("PATCH", "/v0/sandboxes/some", { body: {} });
  assert.equal(answer.status, 405);
  assert.equal(answer.headers.get("allow"), "DELETE, GET, HEAD, PUT");
  assert.deepEqual(Object.keys(answer.body), ["error", "code", "message"]);
  assert.equal((await server.call("POST", "/v0/nothing")).status, 404);
});
