// Starts whose connections break anywhere, and whose daemon is killed, repeated with their keys: each runs once, no byte is lost or doubled.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { type IncomingMessage, request as sendRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { ProcessResponse } from "../../src/contract/sandbox-api/process.ts";
import { type RunningGuest, startGuest } from "../guest/start-guest.ts";

/** How many commands are run; each is asked for until its answer has come whole. */
const calls = Number(process.env.CATNAP_EXEC_CALLS ?? 2_000);
const workers = 8;
const kills = 6;
/** Of one call: the attempts after these are left alone. */
const cutAttemptsMax = 3;

let guest: RunningGuest;
let directory: string;
let daemon: ChildProcess;
let port: number;

before(async () => {
  guest = await startGuest();
  directory = mkdtempSync(join(tmpdir(), "exec-cut-"));
  await startDaemon();
});
after(async () => {
  daemon.kill("SIGKILL");
  await guest[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true });
});

async function startDaemon(): Promise<void> {
  const program = join(import.meta.dirname, "sandbox-process.ts");
  daemon = spawn(process.execPath, [program, directory, guest.socketPath], { stdio: ["pipe", "pipe", "inherit"] });
  const [line] = (await once(createInterface({ input: daemon.stdout! }), "line")) as [string];
  port = (JSON.parse(line) as { port: number }).port;
}

async function killDaemon(): Promise<void> {
  daemon.kill("SIGKILL");
  await once(daemon, "exit");
  await startDaemon();
}

const cuts = ["before", "within", "after", "answer", "none"] as const;
type Cut = (typeof cuts)[number];
type Answer = { status: number; text: string; isRepeated: boolean };
type Ask = { method: string; path: string; headers?: Record<string, string>; body?: string };

/** Undefined when the connection broke before the answer had come whole, by us or by a kill. */
function attempt({ method, path, headers, body = "" }: Ask, cut: Cut): Promise<Answer | undefined> {
  return new Promise((resolve) => {
    const length = { "content-length": String(Buffer.byteLength(body)) };
    const options = { host: "127.0.0.1", port, method, path, agent: false, headers: { ...headers, ...length } };
    const request = sendRequest(options, (response) => {
      read(response, cut === "answer" ? randomInt(0, 400) : undefined).then(resolve, () => resolve(undefined));
    });
    request.once("error", () => resolve(undefined));
    if (cut === "before") return void request.once("socket", () => request.destroy(new Error("cut")));
    if (cut !== "within") request.end(body);
    else {
      request.write(body.slice(0, randomInt(1, body.length)));
      setTimeout(() => request.destroy(new Error("cut")), randomInt(0, 5));
    }
    if (cut === "after")
      request.once("finish", () => setTimeout(() => request.destroy(new Error("cut")), randomInt(0, 8)));
  });
}

async function read(response: IncomingMessage, bytesMax = Number.POSITIVE_INFINITY): Promise<Answer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > bytesMax) throw new Error("cut");
  }
  if (!response.complete) throw new Error("broken");
  const isRepeated = response.headers["idempotent-replayed"] === "true";
  return { status: response.statusCode!, text: Buffer.concat(chunks).toString(), isRepeated };
}

type Event = { type: string; data: string };
const eventsOf = (text: string): Event[] =>
  text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Event);

/** What a call writes: a line, and now and then so much that the answer is cut within it. */
const wordsOf = (index: number): number => (index % 20 === 0 ? 3_000 : 1);

function expectedOutput(index: number): string {
  return Array.from({ length: wordsOf(index) }, (_, word) => `call ${index} word ${word + 1}\n`).join("");
}

/** Repeats the start until its answer has come; returns how many attempts that took. */
async function call(index: number, count: { attempts: number; repeated: number }): Promise<void> {
  const command = `echo ${index} >> ran; seq -f 'call ${index} word %g' 1 ${wordsOf(index)}; echo err ${index} >&2`;
  const streams = index % 2 === 0;
  const body = JSON.stringify({ command, workingDir: directory, waitForCompletion: true });
  const headers = {
    "content-type": "application/json",
    "idempotency-key": `call-${index}`,
    ...(streams ? { accept: "text/event-stream" } : {}),
  };
  for (let tried = 0; ; tried += 1) {
    assert.ok(tried < 500, "no answer comes");
    count.attempts += 1;
    const cut = tried < cutAttemptsMax ? cuts[randomInt(cuts.length)]! : "none";
    const answer = await attempt({ method: "POST", path: "/process", headers, body }, cut);
    // A daemon that is just being replaced.
    if (answer === undefined && tried >= cutAttemptsMax) await delay(20);
    if (answer === undefined || answer.status === 503) continue;
    assert.equal(answer.status, 200, answer.text);
    if (answer.isRepeated) count.repeated += 1;
    const events = streams ? eventsOf(answer.text) : [];
    const result = JSON.parse(streams ? events.at(-1)!.data : answer.text) as ProcessResponse;
    const of = (type: "stdout" | "stderr"): string =>
      streams ? events.map((event) => (event.type === type ? event.data : "")).join("") : result[type]!;
    assert.deepEqual([result.status, result.exitCode, result.cause?.kind], ["completed", 0, "exit"]);
    assert.equal(of("stdout"), expectedOutput(index));
    assert.equal(of("stderr"), `err ${index}\n`);
    return;
  }
}

const endOfWriter = "the end";

/** Follows one process through everything, each time from where it was, and joins what it got. */
async function followWriter(): Promise<string> {
  let got = "";
  let isOver = false;
  while (!isOver) {
    const path = `/process/writer/logs/stream?stdoutOffset=${got.length}`;
    const options = { host: "127.0.0.1", port, path, agent: false, headers: { accept: "application/x-ndjson" } };
    const response = await new Promise<IncomingMessage | undefined>((resolve) => {
      sendRequest(options, resolve)
        .once("error", () => resolve(undefined))
        .end();
    });
    if (response === undefined) {
      await delay(20);
      continue;
    }
    assert.equal(response.statusCode, 200);
    const timer = setTimeout(() => response.destroy(new Error("cut")), randomInt(5, 400));
    let rest = "";
    try {
      for await (const chunk of response.setEncoding("utf8") as AsyncIterable<string>) {
        const lines = (rest + chunk).split("\n");
        rest = lines.pop()!;
        for (const line of lines) {
          const { type, data, offset } = JSON.parse(line) as Event & { offset: number };
          if (type === "result") isOver = true;
          if (type !== "stdout") continue;
          assert.equal(offset, got.length);
          got += data;
        }
      }
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
    }
    clearTimeout(timer);
  }
  return got;
}

test(`${calls} starts through broken connections and ${kills} kills run once each`, { timeout: 600_000 }, async (t) => {
  const command = `i=0; while [ ! -e ${directory}/over ]; do echo "line $i"; i=$((i+1)); [ $((i % 50)) = 0 ] && sleep 0.01; done; echo ${endOfWriter}`;
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ command, name: "writer" });
  assert.equal((await attempt({ method: "POST", path: "/process", headers, body }, "none"))?.status, 200);
  const following = followWriter();
  const count = { attempts: 0, repeated: 0 };
  let next = 0;
  let killing: Promise<void> = Promise.resolve();
  const work = async (): Promise<void> => {
    for (let index = next++; index < calls; index = next++) {
      if (index % Math.ceil(calls / (kills + 1)) === 1 && index > 1) killing = killing.then(killDaemon);
      await call(index, count);
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
  await killing;
  await attempt(
    { method: "POST", path: "/process", headers, body: JSON.stringify({ command: `touch ${directory}/over` }) },
    "none",
  );

  const ran = readFileSync(join(directory, "ran"), "utf8").trim().split("\n").map(Number);
  assert.equal(ran.length, calls, "something ran twice, or not at all");
  assert.equal(new Set(ran).size, calls);
  const lines = (await following).split("\n");
  assert.deepEqual(lines.splice(-2), [endOfWriter, ""]);
  for (const [index, line] of lines.entries()) assert.equal(line, `line ${index}`);
  assert.ok(count.repeated > calls / 5, `${count.repeated} answers were of earlier starts`);
  t.diagnostic(
    `${count.attempts} attempts, ${count.repeated} answers to repeated starts, ${lines.length} lines followed`,
  );
});
