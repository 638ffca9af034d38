// Output: a command's stream and its log through the sandbox API against the pipe of a bare child, read in Node as bytes and line by line.
import { spawn } from "node:child_process";
import { request } from "node:http";
import { createInterface } from "node:readline";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import type { Result } from "../report.ts";
import { summarize } from "../stats.ts";
import { createSandbox } from "./fleet.ts";

const mib = 1024 * 1024;
const rounds = 3;
const outputMib = 128;
const lines = 5_000_000;
/** Processes at once, and what each of them writes. */
const atOnce = 50;
const atOnceMib = 4;
/** Of one log, what is kept at least. */
const logMib = 24;

const bytesCommand = `yes ${"x".repeat(1_023)} | head -c ${outputMib * mib}`;
/** Many short lines: what they cost beyond their bytes. */
const linesCommand = `seq ${lines}`;
const manyCommand = `yes ${"x".repeat(79)} | head -c ${atOnceMib * mib}`;
const logCommand = `yes ${"x".repeat(63)} | head -c ${logMib * mib}`;

type Read = { ms: number; bytes: number };

async function drain(stream: AsyncIterable<Buffer>, startedAt: number): Promise<Read> {
  let bytes = 0;
  for await (const piece of stream) bytes += piece.length;
  return { ms: performance.now() - startedAt, bytes };
}

function barePipe(command: string): Promise<Read> {
  const startedAt = performance.now();
  const child = spawn("/bin/sh", ["-c", command], { stdio: ["ignore", "pipe", "inherit"] });
  return drain(child.stdout, startedAt);
}

/** What a parent does that wants lines. */
async function barePipeByLine(command: string): Promise<Read> {
  const startedAt = performance.now();
  const child = spawn("/bin/sh", ["-c", command], { stdio: ["ignore", "pipe", "inherit"] });
  let bytes = 0;
  for await (const line of createInterface({ input: child.stdout, crlfDelay: Number.POSITIVE_INFINITY }))
    bytes += line.length + 1;
  return { ms: performance.now() - startedAt, bytes };
}

async function together(reads: readonly Promise<Read>[]): Promise<number> {
  const done = await Promise.all(reads);
  return Math.max(...done.map(({ ms }) => ms));
}

/** Reads the whole answer; what is in it is not looked at, because that would measure the client. */
function read(platform: SpawnedPlatform, method: string, url: string, accept: string, body?: object): Promise<Read> {
  const startedAt = performance.now();
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${platform.apiKey}`, accept, "content-type": "application/json" };
    const sending = request(url, { method, headers }, (response) => {
      if (response.statusCode === 200) drain(response, startedAt).then(resolve, reject);
      else reject(new Error(`answered ${response.statusCode}`));
    });
    sending.on("error", reject);
    sending.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

export async function benchStream(): Promise<Result[]> {
  await using platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "60s" });
  const sandbox = await createSandbox(platform, { memoryMb: 4096 });
  const at = (path: string): string => sandbox.metadata.url + path;
  const run = (command: string): Promise<Read> =>
    read(platform, "POST", at("/process"), "text/event-stream", { command });
  const samples = {
    bytes: [] as number[],
    bareBytes: [] as number[],
    lines: [] as number[],
    bareLines: [] as number[],
    bareByLine: [] as number[],
    many: [] as number[],
    bareMany: [] as number[],
    log: [] as number[],
    bareLog: [] as number[],
  };
  for (let round = 0; round < rounds; round++) {
    samples.bareBytes.push((await barePipe(bytesCommand)).ms);
    samples.bytes.push((await run(bytesCommand)).ms);
    samples.bareLines.push((await barePipe(linesCommand)).ms);
    samples.bareByLine.push((await barePipeByLine(linesCommand)).ms);
    samples.lines.push((await run(linesCommand)).ms);
    const each = Array.from({ length: atOnce });
    samples.bareMany.push(await together(each.map(() => barePipe(manyCommand))));
    samples.many.push(await together(each.map(() => run(manyCommand))));
    samples.bareLog.push((await barePipe(logCommand)).ms);
    // Anew: what else was written meanwhile pushes the oldest logs out.
    await read(platform, "POST", at("/process"), "*/*", {
      name: "logged",
      command: logCommand,
      waitForCompletion: true,
    });
    const replayed = await read(platform, "GET", at("/process/logged/logs/stream"), "*/*");
    if (replayed.bytes < logMib * mib) throw new Error("the log is not whole");
    samples.log.push(replayed.ms);
  }
  const perSecond = (count: number, ms: number[]): number => count / (summarize(ms).median / 1_000);
  const result = (name: string, unit: string, count: number, own: number[], bare: number[], goal: number): Result => {
    const ratio = perSecond(count, own) / perSecond(count, bare);
    return {
      name,
      unit,
      measured: { median: perSecond(count, own) },
      baseline: { bare_pipe_median: perSecond(count, bare) },
      goal: `at least ${goal}x of a bare child's pipe read in Node`,
      value: ratio,
      met: ratio >= goal,
    };
  };
  const { bytes, bareBytes, log, bareLog, many, bareMany } = samples;
  const byLine = result(`streamed run, ${lines} short lines`, "lines/s", lines, samples.lines, samples.bareLines, 0.1);
  byLine.baseline!.bare_readline_median = perSecond(lines, samples.bareByLine);
  return [
    result(`streamed run, ${outputMib} MiB of output`, "MiB/s", outputMib, bytes, bareBytes, 0.1),
    byLine,
    result(`${atOnce} streamed runs at once, ${atOnceMib} MiB each`, "MiB/s", atOnce * atOnceMib, many, bareMany, 0.1),
    result(`log stream of ${logMib} MiB, replayed`, "MiB/s", logMib, log, bareLog, 0.25),
  ];
}
