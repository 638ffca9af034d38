// Upgrading the init over HTTP: each outcome, as the health report tells it, and that nothing but a working init takes over.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { afterEach, beforeEach, test } from "node:test";
import type { HealthReport } from "../../src/contract/sandbox-api/health.ts";
import { AppError } from "../../src/core/errors.ts";
import { eventually } from "../eventually.ts";
import { shippedInit } from "../shipped-init.ts";
import { TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
beforeEach(async () => {
  sandbox = await TestSandbox.start();
});
afterEach(() => sandbox[Symbol.asyncDispose]());

const shipped = await shippedInit().readShipped();
const digest = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");
const processor = process.arch === "arm64" ? "arm64" : "amd64";
const base = "https://builds.example.com/init";

/** Serves files by URL, as the platform would download them. */
async function serve(files: Record<string, Buffer | string>): Promise<string[]> {
  const asked: string[] = [];
  sandbox.inits = {
    ...shippedInit(),
    async download(url, { maxBytes }) {
      asked.push(url);
      const content = Buffer.from(files[url] ?? "");
      if (files[url] === undefined) throw new AppError("upstream_failed", `${url} answered 404.`);
      if (content.length > maxBytes) throw new AppError("upstream_failed", `${url} has more than ${maxBytes} bytes.`);
      return content;
    },
  };
  await sandbox.restart();
  return asked;
}

async function finished(): Promise<NonNullable<HealthReport["lastUpgrade"]>> {
  return eventually(async () => {
    const { lastUpgrade } = (await sandbox.ask("GET", "/health")).json as HealthReport;
    assert.notEqual(lastUpgrade?.status, "running");
    return lastUpgrade!;
  });
}

test("an upgrade takes what the platform ships, while processes go on", async () => {
  await sandbox.ask("POST", "/process", {
    json: { name: "counts", command: "for i in 1 2 3; do echo $i; sleep 0.3; done" },
  });
  const answer = await sandbox.ask("POST", "/upgrade", { json: {} });
  assert.equal(answer.status, 200);
  const { version, baseUrl, message } = answer.json as Record<string, string>;
  assert.deepEqual([version, baseUrl], ["latest", ""]);
  assert.match(message!, /started/);
  const { lastAttempt, ...last } = await finished();
  assert.deepEqual(last, { status: "completed", step: "completed", version: "latest" });
  assert.ok(Date.parse(lastAttempt!) <= Date.now());
  assert.equal(sandbox.upgradeCount, 1);
  assert.equal(sandbox.awakeCount, 0);
  await eventually(async () => {
    const { status, stdout } = (await sandbox.ask("GET", "/process/counts")).json as Record<string, string>;
    assert.deepEqual([status, stdout], ["completed", "1\n2\n3\n"]);
  });
});

test("an upgrade without a body is one, too, and one to what runs already is skipped", async () => {
  sandbox.initDigest = digest(shipped);
  await sandbox.restart();
  assert.equal((await sandbox.ask("POST", "/upgrade")).status, 200);
  const { status, step } = await finished();
  assert.deepEqual([status, step], ["completed", "skipped"]);
  assert.equal(sandbox.upgradeCount, 0);
});

test("a build from elsewhere is downloaded with its digest; the report outlives the daemon", async () => {
  const url = `${base}/v2/catnap-init-linux-${processor}`;
  const asked = await serve({ [url]: shipped, [`${url}.sha256`]: `${digest(shipped)}  catnap-init\n` });
  const answer = await sandbox.ask("POST", "/upgrade", { json: { version: "v2", baseUrl: `${base}/` } });
  assert.equal((answer.json as { baseUrl: string }).baseUrl, `${base}/`);
  const { lastAttempt, ...last } = await finished();
  const { length } = shipped;
  assert.deepEqual(last, {
    status: "completed",
    step: "completed",
    version: "v2",
    downloadUrl: url,
    bytesDownloaded: length,
  });
  assert.deepEqual(asked, [`${url}.sha256`, url]);
  await sandbox.restart();
  assert.deepEqual(((await sandbox.ask("GET", "/health")).json as HealthReport).lastUpgrade, { ...last, lastAttempt });
});

const other = Buffer.concat([
  shipped.subarray(0, 18),
  Buffer.from([processor === "amd64" ? 183 : 62, 0]),
  shipped.subarray(20),
]);
const script = Buffer.from(`#!/bin/sh\n${"exit 0\n".repeat(100)}`);
const broken = Buffer.concat([shipped.subarray(0, 64), Buffer.alloc(4_096)]);

const failures: [what: string, file: Buffer | undefined, sum: string | undefined, step: string, error: RegExp][] = [
  ["is not there", undefined, digest(shipped), "download", /answered 404/],
  ["has no digest", shipped, undefined, "download", /sha256 answered 404/],
  ["has a digest that is none", shipped, "<html>", "download", /does not begin with a SHA-256/],
  ["is not what its digest says", shipped, digest(script), "validate", /not what its \.sha256 says/],
  ["is too large", Buffer.alloc(16 * 1024 * 1024 + 1), digest(shipped), "download", /more than 16777216 bytes/],
  ["is empty", Buffer.alloc(0), digest(Buffer.alloc(0)), "validate", /not a program/],
  ["is a script", script, digest(script), "validate", /not a program/],
  ["is for another processor", other, digest(other), "validate", /not a program for this machine/],
  ["is a broken program", broken, digest(broken), "validate", /./],
];

for (const [what, file, sum, step, error] of failures) {
  test(`a build that ${what} replaces nothing`, async () => {
    const url = `${base}/latest/catnap-init-linux-${processor}`;
    await serve({ ...(file && { [url]: file }), ...(sum !== undefined && { [`${url}.sha256`]: sum }) });
    assert.equal((await sandbox.ask("POST", "/upgrade", { json: { baseUrl: base } })).status, 200);
    const last = await finished();
    assert.deepEqual([last.status, last.step], ["failed", step], last.error);
    assert.match(last.error!, error);
    assert.equal(sandbox.upgradeCount, 0);
    assert.equal(sandbox.awakeCount, 0);
    const ran = await sandbox.ask("POST", "/process", { json: { command: "echo on", waitForCompletion: true } });
    assert.equal((ran.json as { stdout: string }).stdout, "on\n");
  });
}

test("a version that is not shipped is not found without a place to download it from", async () => {
  await sandbox.ask("POST", "/upgrade", { json: { version: "v99" } });
  const last = await finished();
  assert.deepEqual([last.status, last.step, last.version], ["failed", "download", "v99"]);
  assert.match(last.error!, /ships version 1\.2\.3 alone/);
});

test("an init that answers after the platform's patience has ended is told as what it is then", async () => {
  sandbox.upgradePatienceMs = 50;
  await sandbox.restart();
  const [second, first] = [Buffer.concat([shipped, Buffer.from("second")]), shipped];
  for (const [binary, count] of [
    [first, 1],
    [second, 2],
  ] as const) {
    sandbox.inits = { ...shippedInit(), readShipped: async () => binary };
    await sandbox.restart();
    process.kill(sandbox.guestPid, "SIGSTOP");
    try {
      assert.equal((await sandbox.ask("POST", "/upgrade")).status, 200);
      const { status, step, error } = await finished();
      assert.deepEqual([status, step], ["failed", "replace"]);
      assert.match(error!, /not answered/);
      assert.equal(sandbox.awakeCount, 0);
      assert.equal(sandbox.upgradeCount, count - 1);
    } finally {
      process.kill(sandbox.guestPid, "SIGCONT");
    }
    const { lastAttempt: _, ...last } = await eventually(async () => {
      const { lastUpgrade } = (await sandbox.ask("GET", "/health")).json as HealthReport;
      assert.equal(lastUpgrade?.status, "completed");
      return lastUpgrade;
    });
    assert.deepEqual(last, { status: "completed", step: "completed", version: "latest" });
    assert.equal(sandbox.upgradeCount, count);
  }
});

test("an answer that comes late says nothing of a later upgrade", async () => {
  sandbox.upgradePatienceMs = 50;
  const waiting = Promise.withResolvers<Buffer>();
  const sources = [Promise.resolve(shipped), waiting.promise];
  sandbox.inits = { ...shippedInit(), readShipped: () => sources.shift()! };
  await sandbox.restart();
  process.kill(sandbox.guestPid, "SIGSTOP");
  try {
    await sandbox.ask("POST", "/upgrade");
    assert.equal((await finished()).status, "failed");
    assert.equal((await sandbox.ask("POST", "/upgrade")).status, 200);
  } finally {
    process.kill(sandbox.guestPid, "SIGCONT");
  }
  await eventually(() => assert.equal(sandbox.upgradeCount, 1));
  const { lastUpgrade } = (await sandbox.ask("GET", "/health")).json as HealthReport;
  assert.deepEqual([lastUpgrade?.status, lastUpgrade?.step], ["running", "download"]);
  waiting.resolve(Buffer.from("none"));
  assert.equal((await finished()).status, "failed");
});

test("there is one upgrade at a time, and one that the platform's end cut off has failed", async () => {
  const waiting = Promise.withResolvers<Buffer>();
  sandbox.inits = { ...shippedInit(), readShipped: () => waiting.promise };
  await sandbox.restart();
  assert.equal((await sandbox.ask("POST", "/upgrade")).status, 200);
  assert.equal((await sandbox.ask("POST", "/upgrade")).status, 409);
  assert.equal(sandbox.awakeCount, 1, "it does not fall asleep half-way");
  const { lastUpgrade } = (await sandbox.ask("GET", "/health")).json as HealthReport;
  assert.deepEqual([lastUpgrade?.status, lastUpgrade?.step], ["running", "download"]);
  sandbox.inits = shippedInit();
  await sandbox.restart();
  waiting.resolve(shipped);
  const last = await finished();
  assert.deepEqual([last.status, last.step], ["failed", "download"]);
  assert.match(last.error!, /platform stopped/);
  assert.equal((await sandbox.ask("POST", "/upgrade")).status, 200);
  assert.equal((await finished()).status, "completed");
});

for (const [what, json] of [
  ["a version with a slash", { version: "../../etc" }],
  ["a version that begins with a dot", { version: ".." }],
  ["a version of 65 characters", { version: "v".repeat(65) }],
  ["a version that is a number", { version: 7 }],
  ["a base that is no URL", { baseUrl: "builds" }],
  ["a base with a query", { baseUrl: `${base}?x=1` }],
  ["a base that is too long", { baseUrl: `https://${"x".repeat(1_024)}.example.com/` }],
] as const) {
  test(`${what} is refused, and nothing was attempted`, async () => {
    assert.equal((await sandbox.ask("POST", "/upgrade", { json })).status, 400);
    assert.equal(((await sandbox.ask("GET", "/health")).json as HealthReport).lastUpgrade, undefined);
  });
}
