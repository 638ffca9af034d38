// Large bodies pass through the daemon without staying in it.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { type IncomingMessage, request } from "node:http";
import { join } from "node:path";
import { Readable } from "node:stream";
import { json } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { after, before, type TestContext, test } from "node:test";
import { formEnd, formHeaders, partHead } from "./form.ts";
import { SpawnedSandbox } from "./spawned-sandbox.ts";

const mib = 1024 * 1024;
const growthMaxBytes = 64 * mib;
let sandbox: SpawnedSandbox;

before(async () => {
  sandbox = await SpawnedSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());

async function open(method: string, path: string, headers: object, body?: Readable): Promise<IncomingMessage> {
  const sent = request({ host: "127.0.0.1", port: sandbox.port, method, path, headers: { ...headers }, agent: false });
  const answered = once(sent, "response") as Promise<[IncomingMessage]>;
  if (body === undefined) sent.end();
  else await pipeline(body, sent);
  return (await answered)[0];
}

/** The highest resident size since it was last reset, and the size now. */
function memoryOf(pid: number): { peakBytes: number; nowBytes: number } {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const read = (name: string): number => Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)![1]) * 1024;
  return { peakBytes: read("VmHWM"), nowBytes: read("VmRSS") };
}

async function assertGrowthBounded(context: TestContext, work: () => Promise<void>): Promise<void> {
  writeFileSync(`/proc/${sandbox.daemonPid}/clear_refs`, "5");
  const { nowBytes } = memoryOf(sandbox.daemonPid);
  await work();
  const growthBytes = memoryOf(sandbox.daemonPid).peakBytes - nowBytes;
  context.diagnostic(`the daemon grew by ${(growthBytes / mib).toFixed(1)} MiB`);
  assert.ok(growthBytes < growthMaxBytes, `${growthBytes / mib} MiB`);
}

/** A form around this many MiB that exist only while they are sent. */
function largeForm(sizeMb: number): Readable {
  const chunk = Buffer.alloc(mib, "catnap ");
  return Readable.from(
    (function* () {
      yield partHead("file", "large.bin");
      for (let index = 0; index < sizeMb; index += 1) yield chunk;
      yield Buffer.from("\r\n");
      yield formEnd;
    })(),
  );
}

async function upload(name: string, sizeMb: number): Promise<void> {
  const response = await open("PUT", `/filesystem/${name}`, formHeaders, largeForm(sizeMb));
  assert.equal(response.statusCode, 200, JSON.stringify(await json(response)));
  assert.equal(statSync(join(sandbox.workingDir, name)).size, sizeMb * mib);
}

async function download(name: string, sizeMb: number, accept: string): Promise<void> {
  const response = await open("GET", `/filesystem/${name}`, { accept });
  assert.equal(response.statusCode, 200);
  let bytes = 0;
  for await (const chunk of response) bytes += (chunk as Buffer).length;
  assert.ok(bytes >= sizeMb * mib);
}

test("an upload of 2 GiB grows the daemon by less than 64 MiB", async (context) => {
  await upload("warm-up.bin", 64);
  await assertGrowthBounded(context, () => upload("large.bin", 2_048));
});

test("a download of 2 GiB grows it by less than 64 MiB", async (context) => {
  await download("warm-up.bin", 64, "application/octet-stream");
  await assertGrowthBounded(context, () => download("large.bin", 2_048, "application/octet-stream"));
});

test("reading 64 MiB as JSON grows it by less than 64 MiB", async (context) => {
  await download("warm-up.bin", 64, "application/json");
  await assertGrowthBounded(context, () => download("warm-up.bin", 64, "application/json"));
});

test("a slow reader of a download holds nothing but its window", async (context) => {
  await assertGrowthBounded(context, async () => {
    const responses = await Promise.all(
      Array.from({ length: 10 }, () => open("GET", "/filesystem/large.bin", { accept: "application/octet-stream" })),
    );
    await Promise.all(responses.map((response) => response.take(1).toArray()));
  });
});
