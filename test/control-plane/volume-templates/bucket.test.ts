// Archives in a bucket: clients send them there with URLs the store verifies, and what was checked is what is kept, whoever sends what afterwards.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { readS3Settings } from "../../../src/control-plane/object-store/config.ts";
import { signUrl } from "../../../src/control-plane/object-store/signature.ts";
import type { VolumeTemplateConfig } from "../../../src/control-plane/volume-templates/config.ts";
import { type Server, startServer, until } from "../harness.ts";
import { bucket, type S3Server, startS3 } from "./s3-server.ts";
import { archive } from "./tar-archive.ts";
import { askUpload, smallArchive } from "./uploading.ts";

const base = "/v0/volume_templates";

function startWith(s3: S3Server, limits: Partial<VolumeTemplateConfig> = {}, earlier?: Server): Promise<Server> {
  const { name, ...key } = bucket;
  const settings = { bucket: { endpoint: s3.url, bucket: name, ...key }, collectIntervalMs: 10, sweepIntervalMs: 10 };
  const { dataDir, apiKey } = earlier ?? {};
  return startServer({
    volumeTemplates: { ...settings, ...limits },
    ...(dataDir !== undefined && { dataDir, apiKey }),
  });
}

async function put(url: string, body: Buffer, method = "PUT"): Promise<number> {
  const answer = await fetch(url, {
    method,
    body: new Uint8Array(body),
    headers: { "content-type": "application/x-tar" },
  });
  await answer.text();
  return answer.status;
}

function untilVersion(server: Server, status: string) {
  return until(`the version is ${status}`, async () => {
    const { body } = await server.call("GET", `${base}/deps`);
    return body.versions[0].status === status ? body.versions[0] : undefined;
  });
}

test("a signature in a URL is the one that Amazon documents for its example", () => {
  const key = {
    keyId: "AKIAIOSFODNN7EXAMPLE",
    secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    region: "us-east-1",
  };
  const url = new URL("https://examplebucket.s3.amazonaws.com/test.txt");
  const signed = signUrl(key, "GET", url, 86_400, new Date("2013-05-24T00:00:00Z"));
  assert.equal(
    new URL(signed).searchParams.get("X-Amz-Signature"),
    "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
  );
});

test("an archive is sent to the bucket, checked and READY; the key it was sent to is empty again", async () => {
  await using s3 = await startS3();
  await using server = await startWith(s3);
  const { url, answer } = await askUpload(server, "deps", "one");
  assert.ok(url.startsWith(`${s3.url}/archives/catnap-`), url);
  assert.equal(answer.body.versions[0].bucket, "archives");
  assert.ok(!url.includes(bucket.secret));
  assert.equal(await put(url, smallArchive), 200);
  const version = await untilVersion(server, "READY");
  assert.equal(version.contentSize, smallArchive.length);
  await until("only the archive is left", () => s3.objects.size === 1);
  const [[key = "", kept] = []] = [...s3.objects];
  assert.match(key, /^catnap-[0-9a-f]{16}\/objects\//);
  assert.equal(kept?.equals(smallArchive), true);
  assert.deepEqual(s3.refused, []);
  await server.call("DELETE", `${base}/deps`);
  await until("the archive is removed", () => s3.objects.size === 0);
});

test("the store takes the URL as it was given only, until it expires", async () => {
  await using s3 = await startS3();
  await using server = await startWith(s3, { uploadUrlTtlMs: 1_000 });
  const { url } = await askUpload(server, "deps", "one");
  const other = await askUpload(server, "deps", "two");
  assert.equal(await put(url, smallArchive, "POST"), 403);
  assert.equal(await put(url.replace(/X-Amz-Expires=\d+/, "X-Amz-Expires=9999"), smallArchive), 403);
  const moved = new URL(url);
  moved.pathname = new URL(other.url).pathname;
  assert.equal(await put(moved.href, smallArchive), 403);
  assert.equal((await fetch(`${s3.url}/archives/catnap`)).status, 403);
  await until("it has expired", async () => (await put(url, Buffer.from("x"))) === 403);
});

test("an archive that is refused says why, and is in the bucket no more", async () => {
  await using s3 = await startS3();
  await using server = await startWith(s3);
  const { url } = await askUpload(server, "deps", "one");
  assert.equal(await put(url, archive({ name: "../up" })), 200);
  const version = await untilVersion(server, "FAILED");
  assert.match(version.message, /"\.\.\/up" has a \.\. in it/);
  await until("the bucket is empty", () => s3.objects.size === 0);
  const again = await askUpload(server, "deps", "one");
  assert.equal(await put(again.url, smallArchive), 200);
  await untilVersion(server, "READY");
});

test("an archive that is too large, or over the quota, is refused by its size alone", async () => {
  await using s3 = await startS3();
  await using server = await startWith(s3, { archiveMaxBytes: smallArchive.length - 1 });
  const { url } = await askUpload(server, "deps", "one");
  await put(url, smallArchive);
  assert.match((await untilVersion(server, "FAILED")).message, /more than \d+ bytes/);
  await using narrow = await startWith(s3, { workspaceMaxBytes: smallArchive.length - 1 });
  await put((await askUpload(narrow, "deps", "one")).url, smallArchive);
  assert.match((await untilVersion(narrow, "FAILED")).message, /quota/);
  assert.ok(!s3.served.some((line) => line.startsWith("GET catnap") && line.includes("/objects/")), "nothing was read");
});

test("what is sent after the check changes nothing and is removed", async () => {
  await using s3 = await startS3();
  await using server = await startWith(s3);
  const { url } = await askUpload(server, "deps", "one");
  assert.equal(await put(url, smallArchive), 200);
  await untilVersion(server, "READY");
  assert.equal(await put(url, archive({ name: "l", type: "2", linkName: "/etc" })), 200, "the store knows no better");
  await until("the later object is gone", () => s3.objects.size === 1);
  assert.equal([...s3.objects.values()][0]?.equals(smallArchive), true);
  assert.equal((await untilVersion(server, "READY")).contentSize, smallArchive.length);
});

test("what is sent between the look and the copy is not taken for what was seen", async () => {
  await using s3 = await startS3();
  let swapped = 0;
  s3.onRequest = (method, key) => {
    if (method === "PUT" && key.includes("/objects/") && swapped++ === 0) {
      for (const [each] of s3.objects) s3.objects.set(each, Buffer.from("swapped"));
    }
    return false;
  };
  await using server = await startWith(s3);
  const { url } = await askUpload(server, "deps", "one");
  await put(url, smallArchive);
  const version = await untilVersion(server, "FAILED");
  assert.match(version.message, /too short/, "the swapped object was seen in its turn");
  assert.ok(swapped >= 2);
});

test("failures of the store are tried again and are nobody's fault", async () => {
  await using s3 = await startS3();
  let failures = 0;
  s3.onRequest = (method, _key, response) => {
    if (failures >= 6) return false;
    failures++;
    if (method === "PUT") response.end("<Error><Code>InternalError</Code></Error>");
    else response.writeHead(500).end();
    return true;
  };
  await using server = await startWith(s3);
  const { url } = await askUpload(server, "deps", "one");
  await until("the store has failed", () => failures >= 6);
  await put(url, smallArchive);
  await untilVersion(server, "READY");
  assert.ok(!server.logged().includes("X-Amz-Signature"));
  assert.ok(!server.logged().includes(bucket.secret));
});

test("an upload that came while the platform was down is fetched by the next one", async () => {
  await using s3 = await startS3();
  await using server = await startWith(s3, { collectIntervalMs: 600_000 });
  const { url } = await askUpload(server, "deps", "one");
  await server.controlPlane[Symbol.asyncDispose]();
  await put(url, smallArchive);
  await using again = await startWith(s3, {}, server);
  await untilVersion(again, "READY");
  await until("only the archive is left", () => s3.objects.size === 1);
});

test("objects of deleted versions and of nobody are removed, those of another installation are left alone", async () => {
  await using s3 = await startS3();
  await using server = await startWith(s3);
  const { url } = await askUpload(server, "deps", "one");
  await put(url, smallArchive);
  await untilVersion(server, "READY");
  const prefix = new URL(url).pathname.split("/")[2];
  for (const name of ["a", "b", "c", "d", "e"]) {
    s3.objects.set(`${prefix}/objects/${name}`, smallArchive);
    s3.objects.set(`${prefix}/incoming/${name}`, smallArchive);
  }
  s3.objects.set("catnap-other/objects/theirs", smallArchive);
  await until("nobody's objects are gone", () => s3.objects.size === 2);
  assert.ok(s3.objects.has("catnap-other/objects/theirs"));
  assert.equal((await untilVersion(server, "READY")).name, "one");
});

test("settings of the bucket are checked; its secret may come from a file and is never repeated", async () => {
  await using server = await startServer();
  const path = join(server.dataDir, "secret");
  writeFileSync(path, "s3cr3t/+=\n");
  const good = {
    CATNAP_OBJECT_STORE_URL: "https://s3.example.com",
    CATNAP_OBJECT_STORE_BUCKET: "archives",
    CATNAP_OBJECT_STORE_KEY_ID: "AKID",
    CATNAP_OBJECT_STORE_SECRET_FILE: path,
  };
  assert.equal(readS3Settings(good)?.secret, "s3cr3t/+=");
  assert.equal(readS3Settings({}), undefined);
  const bad: [string, string][] = [
    ["CATNAP_OBJECT_STORE_URL", "https://user:pw@s3.example.com"],
    ["CATNAP_OBJECT_STORE_URL", "https://s3.example.com/path"],
    ["CATNAP_OBJECT_STORE_URL", "file:///etc/passwd"],
    ["CATNAP_OBJECT_STORE_URL", ""],
    ["CATNAP_OBJECT_STORE_BUCKET", "local"],
    ["CATNAP_OBJECT_STORE_BUCKET", "Bad_Bucket"],
    ["CATNAP_OBJECT_STORE_BUCKET", ""],
    ["CATNAP_OBJECT_STORE_REGION", "EU 1"],
    ["CATNAP_OBJECT_STORE_KEY_ID", "a/b"],
    ["CATNAP_OBJECT_STORE_SECRET_FILE", "/nonexistent"],
  ];
  for (const [name, value] of bad) {
    assert.throws(
      () => readS3Settings({ ...good, [name]: value }),
      ({ message }: Error) => message.includes(name) && (value === "" || !message.includes(value)),
      `${name}=${value}`,
    );
  }
});
