// Large bodies pass through the daemon without staying in it.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { type IncomingMessage, request } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { json } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { after, before, test } from "node:test";
import { formEnd, formHeaders, partHead } from "./form.ts";

const mib = 1024 * 1024;
const growthMaxBytes = 64 * mib;
let daemon: ChildProcess;
let port: number;
let workingDir: string;

before(async () => {
  const program = join(import.meta.dirname, "sandbox-process.ts");
  daemon = spawn(process.execPath, [program], { stdio: ["pipe", "pipe", "inherit"] });
  const [line] = (await once(createInterface({ input: daemon.stdout! }), "line")) as [string];
  ({ port, workingDir } = JSON.parse(line) as { port: number; workingDir: string });
});
after(async () => {
  daemon.stdin!.end();
  await once(daemon, "exit");
});

async function open(method: string, path: string, headers: object, body?: Readable): Promise<IncomingMessage> {
  const sent = request({ host: "127.0.0.1", port, method, path, headers: { ...headers }, agent: false });
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

async function measureGrowth(work: () => Promise<void>): Promise<number> {
  writeFileSync(`/proc/${daemon.pid}/clear_refs`, "5");
  const { nowBytes } = memoryOf(daemon.pid!);
  await work();
  return memoryOf(daemon.pid!).peakBytes - nowBytes;
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
  assert.equal(statSync(join(workingDir, name)).size, sizeMb * mib);
}

async function download(name: string, sizeMb: number, accept: string): Promise<void> {
  const response = await open("GET", `/filesystem/${name}`, { accept });
  assert.equal(response.statusCode, 200);
  let bytes = 0;
  for await (const chunk of response) bytes += (chunk as Buffer).length;
  assert.ok(bytes >= sizeMb * mib);
}

test("an upload of 2 GiB grows the daemon by less than 64 MiB", async () => {
  await upload("warm-up.bin", 64);
  const growthBytes = await measureGrowth(() => upload("large.bin", 2_048));
  assert.ok(growthBytes < growthMaxBytes, `${growthBytes / mib} MiB`);
});

test("a download of 2 GiB grows it by less than 64 MiB", async () => {
  await download("warm-up.bin", 64, "application/octet-stream");
  const growthBytes = await measureGrowth(() => download("large.bin", 2_048, "application/octet-stream"));
  assert.ok(growthBytes < growthMaxBytes, `${growthBytes / mib} MiB`);
});

test("reading 64 MiB as JSON grows it by less than 64 MiB", async () => {
  await download("warm-up.bin", 64, "application/json");
  const growthBytes = await measureGrowth(() => download("warm-up.bin", 64, "application/json"));
  assert.ok(growthBytes < growthMaxBytes, `${growthBytes / mib} MiB`);
});

test("a slow reader of a download holds nothing but its window", async () => {
  const growthBytes = await measureGrowth(async () => {
    const responses = await Promise.all(
      Array.from({ length: 10 }, () => open("GET", "/filesystem/large.bin", { accept: "application/octet-stream" })),
    );
    await Promise.all(responses.map((response) => response.take(1).toArray()));
  });
  assert.ok(growthBytes < growthMaxBytes, `${growthBytes / mib} MiB`);
});
