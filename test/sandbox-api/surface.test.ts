// What holds for every answer: health, errors, methods, CORS, caching, timings.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { sandboxOperations } from "../../src/contract/operations.ts";
import type { HealthReport } from "../../src/contract/sandbox-api/health.ts";
import { formatUptime } from "../../src/sandbox-api/health.ts";
import { TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
before(async () => {
  sandbox = await TestSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());

test("health tells what runs, and no upgrade before one was attempted", async () => {
  const answer = await sandbox.ask("GET", "/health");
  const report = answer.json as HealthReport;
  assert.equal(answer.status, 200);
  assert.deepEqual(Object.keys(report).sort(), [
    "arch",
    "buildTime",
    "gitCommit",
    "goVersion",
    "os",
    "startedAt",
    "status",
    "upgradeCount",
    "uptime",
    "uptimeSeconds",
    "version",
  ]);
  assert.deepEqual(
    [report.status, report.version, report.gitCommit, report.upgradeCount],
    ["ok", "1.2.3", "c0ffee", 0],
  );
  assert.equal(report.goVersion, `node${process.versions.node}`);
  for (const time of [report.buildTime, report.startedAt]) assert.match(time, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  assert.ok(report.uptimeSeconds >= 0);
});

for (const [seconds, text] of [
  [0.4, "0s"],
  [59, "59s"],
  [61, "1m1s"],
  [3_600, "1h0m0s"],
  [90_061.5, "25h1m1s"],
] as const) {
  test(`an uptime of ${seconds} seconds reads ${text}`, () => assert.equal(formatUptime(seconds), text));
}

test("the root welcomes any method", async () => {
  for (const method of ["GET", "POST", "PUT", "DELETE"]) {
    const answer = await sandbox.ask(method, "/");
    assert.deepEqual([answer.status, (answer.json as { version: string }).version], [200, "1.2.3"]);
  }
});

const refused: [
  method: string,
  path: string,
  status: number,
  headers: Record<string, string>,
  body: string | undefined,
][] = [
  ["GET", "/nothing", 404, {}, undefined],
  ["GET", "/process/a/b/c", 404, {}, undefined],
  ["DELETE", "/drives/mount", 404, {}, undefined],
  ["POST", "/filesystem-multipart/initiate", 404, {}, undefined],
  ["POST", "/health", 405, {}, undefined],
  ["PUT", "/process", 405, {}, undefined],
  ["POST", "/filesystem/x", 405, {}, undefined],
  ["GET", "/filesystem-multipart/initiate", 405, {}, undefined],
  ["POST", "/process", 415, { "content-type": "text/plain" }, "x"],
  ["POST", "/process", 400, { "content-type": "application/json" }, "{"],
  ["POST", "/process", 400, { "content-type": "application/json" }, "[]"],
  ["POST", "/process", 413, { "content-type": "application/json" }, `"${"x".repeat(3 * 1024 * 1024)}"`],
  ["GET", "/process/%ff", 400, {}, undefined],
];
for (const [method, path, status, headers, body] of refused) {
  test(`${method} ${path} ${headers["content-type"] ?? ""} is ${status} with {error}`, async () => {
    const answer = await sandbox.ask(method, path, { headers, body });
    assert.equal(answer.status, status, answer.text);
    assert.deepEqual(Object.keys(answer.json as object), ["error"]);
    assert.match(String(answer.headers["server-timing"]), /total;dur=/);
    assert.equal(answer.headers["access-control-allow-origin"], "*");
    assert.equal(answer.headers["cache-control"], "no-store");
    if (status === 405) assert.ok(answer.headers.allow);
  });
}

test("every answer says how long it took, and what of it the guest", async () => {
  const json = { command: "true", waitForCompletion: true };
  assert.match((await sandbox.ask("GET", "/health")).headers["server-timing"] as string, /^total;dur=[\d.]+$/);
  assert.match(
    (await sandbox.ask("POST", "/process", { json })).headers["server-timing"] as string,
    /^guest;dur=[\d.]+, total/,
  );
  assert.match((await sandbox.ask("GET", "/filesystem/")).headers["server-timing"] as string, /^guest;dur=/);
});

test("a base URL that ends in a slash still works", async () => {
  assert.equal((await sandbox.ask("GET", "//health")).status, 200);
  assert.equal((await sandbox.ask("GET", `//filesystem/${sandbox.workingDir}`)).status, 200);
});

test("OPTIONS is 204 on any path", async () => {
  for (const path of ["/", "/process", "/filesystem/x", "/nothing"]) {
    const answer = await sandbox.ask("OPTIONS", path, { headers: { "access-control-request-method": "PUT" } });
    assert.equal(answer.status, 204);
    assert.equal(answer.headers["access-control-allow-origin"], "*");
    assert.match(answer.headers["access-control-allow-headers"]!, /X-Blaxel-Authorization/);
  }
});

test("HEAD of every kind of GET is 200 without a body", async () => {
  for (const path of ["/", "/health", "/process", "/filesystem/", "/filesystem-multipart"]) {
    const [head, get] = [await sandbox.ask("HEAD", path), await sandbox.ask("GET", path)];
    assert.deepEqual([head.status, head.body.length], [200, 0], path);
    assert.equal(head.headers["content-type"], get.headers["content-type"]);
  }
});

test("the OpenAPI document and the page made of it name every operation", async () => {
  const { json, headers } = await sandbox.ask("GET", "/openapi.json");
  assert.match(headers["content-type"]!, /^application\/json/);
  const { paths, openapi } = json as {
    paths: Record<string, Record<string, { operationId: string }>>;
    openapi: string;
  };
  const ids = Object.values(paths).flatMap((methods) => Object.values(methods).map(({ operationId }) => operationId));
  assert.deepEqual(ids.sort(), sandboxOperations.map(({ operationId }) => operationId).sort());
  assert.match(openapi, /^3\.1/);
  const page = await sandbox.ask("GET", "/swagger");
  assert.match(page.headers["content-type"]!, /^text\/html/);
  assert.match(page.headers["content-security-policy"] as string, /default-src 'none'/);
  assert.doesNotMatch(page.text, /<script/);
  for (const { summary } of sandboxOperations) {
    assert.ok(page.text.includes(summary.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)), summary);
  }
  for (const path of ["/openapi.json", "/swagger"]) {
    const head = await sandbox.ask("HEAD", path);
    assert.deepEqual([head.status, head.body.length], [200, 0]);
  }
});

test("there is no environment to reload, and the refusal says why", async () => {
  const answer = await sandbox.ask("POST", "/environment/reload");
  assert.equal(answer.status, 404);
  assert.match((answer.json as { error: string }).error, /every new process/);
  assert.equal((await sandbox.ask("GET", "/environment/reload")).status, 405);
});
