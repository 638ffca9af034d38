// After a crash in the middle of an upload or of a check: what is READY has its bytes, what was acknowledged is READY, nothing is left over.
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startServer, until } from "../harness.ts";
import { bucket, startS3 } from "./s3-server.ts";
import { archive } from "./tar-archive.ts";
import { askUpload, send, sendSlowly, smallArchive } from "./uploading.ts";

type Child = AsyncDisposable & { url: string; apiKey: string; kill(): Promise<void> };

async function startChild(dataDir: string, apiKey = "", s3Url = ""): Promise<Child> {
  const script = fileURLToPath(new URL("crash-child.ts", import.meta.url));
  const child: ChildProcess = spawn(process.execPath, [script, dataDir, apiKey, s3Url], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    await ended;
  };
  for await (const line of createInterface({ input: child.stdout! })) {
    return { ...JSON.parse(line), kill, [Symbol.asyncDispose]: kill };
  }
  return assert.fail("the child ended early");
}

function temporaryDir(): Disposable & { path: string } {
  const path = mkdtempSync(join(tmpdir(), "catnap-volume-templates-crash-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

async function ask(child: Child, version: string): Promise<string> {
  const answer = await fetch(`${child.url}/v0/volume_templates/deps?upload=true&version=${version}`, {
    method: "PUT",
    headers: { authorization: `Bearer ${child.apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ metadata: {}, spec: {} }),
  });
  assert.equal(answer.status, 200, await answer.text());
  return answer.headers.get("x-blaxel-upload-url") ?? assert.fail("no upload URL");
}

const contentOf = (version: string): Buffer =>
  archive({ name: version, content: Buffer.alloc(300_000 + version.length * 512, version) });

test("killed at random moments while archives arrive", async () => {
  using dir = temporaryDir();
  const acknowledged = new Set<string>();
  let apiKey = "";
  for (let round = 0; round < 6; round++) {
    await using child = await startChild(dir.path, apiKey);
    apiKey = child.apiKey;
    const lanes = Array.from({ length: 3 }, async (_, lane) => {
      for (let count = 0; count < 6; count++) {
        const version = `r${round}-${lane}-${count}`;
        const { status } = await send(await ask(child, version), contentOf(version));
        assert.equal(status, 200);
        acknowledged.add(version);
      }
    });
    const settled = Promise.allSettled(lanes);
    const before = acknowledged.size;
    if (round % 2 === 1) await until("something was acknowledged", () => acknowledged.size > before);
    await delay(Math.random() * 60);
    await child.kill();
    for (const result of await settled) {
      assert.ok(result.status === "fulfilled" || !(result.reason instanceof assert.AssertionError), String(result));
    }
  }
  await using server = await startServer({ dataDir: dir.path, apiKey, volumeTemplates: { versionsMax: 1_000 } });
  const { body } = await server.call("GET", "/v0/volume_templates/deps");
  const ready = body.versions.filter(({ status }: { status: string }) => status === "READY");
  const names = new Set(ready.map(({ name }: { name: string }) => name));
  assert.ok(acknowledged.size > 0);
  for (const version of acknowledged) assert.ok(names.has(version), `${version} was acknowledged`);
  const objects = join(dir.path, "volume-templates", "objects");
  await until("every file has its version", () => readdirSync(objects).length === ready.length);
  for (const { name, versionId } of ready) {
    const file = readdirSync(objects).find((key) => key.startsWith(versionId)) ?? assert.fail(`${name} has no bytes`);
    assert.equal(readFileSync(join(objects, file)).equals(contentOf(name)), true, name);
  }
  assert.deepEqual(readdirSync(join(dir.path, "volume-templates", "incoming")), []);
});

test("killed in the middle of one upload, which may then be sent again", async () => {
  using dir = temporaryDir();
  const incoming = join(dir.path, "volume-templates", "incoming");
  await using child = await startChild(dir.path);
  const slow = sendSlowly(await ask(child, "one"));
  await slow.write(smallArchive.subarray(0, 700));
  await until("it is written down", () => readdirSync(incoming).length === 1);
  await child.kill();
  assert.equal(await slow.ended, "cut off");
  assert.equal(readdirSync(incoming).length, 1);
  await using server = await startServer({ dataDir: dir.path, apiKey: child.apiKey });
  assert.deepEqual(readdirSync(incoming), []);
  const { url } = await askUpload(server, "deps", "one");
  assert.equal((await send(url, smallArchive)).status, 200);
});

test("killed between an object's name and its version's READY, the object is removed", async () => {
  using dir = temporaryDir();
  await using server = await startServer({ dataDir: dir.path });
  const objects = join(dir.path, "volume-templates", "objects");
  const { url } = await askUpload(server, "deps", "one");
  assert.equal((await send(url, smallArchive)).status, 200);
  await server.controlPlane[Symbol.asyncDispose]();
  // As if the transaction had not come to its end.
  await server.query("update volume_template_versions set status = 'CREATED', object_key = null, content_size = 0");
  await using again = await startServer({ dataDir: dir.path, apiKey: server.apiKey });
  await until("the object is removed", () => readdirSync(objects).length === 0);
  const { body } = await again.call("GET", "/v0/volume_templates/deps");
  assert.equal(body.versions[0].status, "CREATED");
});

test("killed in the middle of a check in the bucket, which the next platform makes again", async () => {
  using dir = temporaryDir();
  await using s3 = await startS3();
  await using child = await startChild(dir.path, "", s3.url);
  const reading = Promise.withResolvers<void>();
  s3.onRequest = (method, key, response) => {
    if (method !== "GET" || !key.includes("/objects/")) return false;
    response.writeHead(200).write(smallArchive.subarray(0, 600));
    reading.resolve();
    return true;
  };
  await send(await ask(child, "one"), smallArchive);
  await reading.promise;
  await child.kill();
  s3.onRequest = () => false;
  const { name, ...key } = bucket;
  const settings = { bucket: { endpoint: s3.url, bucket: name, ...key }, collectIntervalMs: 10, sweepIntervalMs: 10 };
  await using server = await startServer({ dataDir: dir.path, apiKey: child.apiKey, volumeTemplates: settings });
  await until("it is READY", async () => {
    const { body } = await server.call("GET", "/v0/volume_templates/deps");
    return body.versions[0].status === "READY";
  });
  await until("one object is left", () => s3.objects.size === 1);
});

test("a full disk refuses an upload, leaves nothing and takes the next that fits", {
  skip: process.getuid?.() !== 0,
}, async () => {
  using dir = temporaryDir();
  const directory = join(dir.path, "small");
  mkdirSync(directory);
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=256k", "catnap-test", directory], {
    encoding: "utf8",
  });
  assert.equal(mounted.status, 0, mounted.stderr);
  try {
    await using server = await startServer({ volumeTemplates: { directory, diskReserveBytes: 0 } });
    const { url } = await askUpload(server, "deps", "one");
    const large = archive({ name: "large", content: Buffer.alloc(1_000_000, 1) });
    const unannounced = sendSlowly(url);
    await unannounced.write(large);
    unannounced.end();
    assert.equal(await unannounced.ended, 503);
    unannounced.cut();
    assert.equal((await send(url, large)).status, 503, "announced");
    const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((file) => file.isFile());
    assert.deepEqual(files, []);
    assert.equal((await send(url, smallArchive)).status, 200);
  } finally {
    assert.equal(spawnSync("umount", [directory]).status, 0);
  }
});
