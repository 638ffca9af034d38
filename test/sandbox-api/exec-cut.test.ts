// Starts whose connections break anywhere, and whose daemon is killed, repeated with their keys: each runs once, no byte is lost or doubled.
import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { readFileSync } from "node:fs";
import { type IncomingMessage, request as sendRequest } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { ProcessResponse } from "../../src/contract/sandbox-api/process.ts";
import { type Ask, type CutPlace, cutPlaces, sendCut, type WholeAnswer } from "./cut-request.ts";
import { SpawnedSandbox, withDeadline } from "./spawned-sandbox.ts";

/** How many commands are run; each is asked for until its answer has come whole. */
const calls = Number(process.env.CATNAP_EXEC_CALLS ?? 10_000);
const workers = 8;
const kills = Math.max(1, Math.min(6, Math.floor(calls / 300)));
/** Of one call: the first attempt is always to be cut, these many may be, later ones are left alone. */
const cutAttemptsMax = 3;
/** Far more than cuts and kills can take. */
const attemptsMax = 50;
const progressMaxMs = 60_000;

let sandbox: SpawnedSandbox;
before(async () => {
  sandbox = await SpawnedSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());

type Count = {
  attempts: number;
  /** Answers about a process that an earlier attempt had started. */
  repeated: number;
  /** Attempts that had been sent whole when the daemon was killed. */
  killed: number;
  cut: Record<CutPlace, number>;
  /** Cuts of the stream that follows one process all the while. */
  followed: number;
};

type Event = { type: string; data: string };
const eventsOf = (text: string): Event[] =>
  text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Event);

/** What a call writes: a line, and now and then so much that the answer is cut within it. */
const linesOf = (index: number): number => (index % 20 === 0 ? 1_000 : 1);

function expectedOutput(index: number): string {
  return Array.from({ length: linesOf(index) }, (_, line) => `call ${index} line ${line + 1}\n`).join("");
}

/** Of builtins of the shell alone: the fewest processes that ten thousand calls can do with. */
function commandOf(index: number): string {
  const line = `echo "call ${index} line $i"`;
  const output =
    linesOf(index) === 1 ? `i=1; ${line}` : `i=0; while [ $i -lt ${linesOf(index)} ]; do i=$((i+1)); ${line}; done`;
  return `echo ${index} >> ran; ${output}; echo err ${index} >&2`;
}

/** Half of the calls follow their output as it comes, the others wait for all of it. */
const isStreamed = (index: number): boolean => index % 2 === 0;

function askOf(index: number): Ask {
  const headers = {
    "content-type": "application/json",
    "idempotency-key": `call-${index}`,
    ...(isStreamed(index) ? { accept: "text/event-stream" } : {}),
  };
  const body = JSON.stringify({ command: commandOf(index), workingDir: sandbox.directory, waitForCompletion: true });
  return { method: "POST", path: "/process", headers, body };
}

function placeOf(index: number, tried: number): CutPlace | "none" {
  if (tried >= cutAttemptsMax || (tried > 0 && randomInt(3) > 0)) return "none";
  const place = cutPlaces[(index + tried) % cutPlaces.length]!;
  if (place === "stream" || place === "answerBody") return isStreamed(index) ? "stream" : "answerBody";
  return place;
}

/** Repeats the start until its answer has come. */
async function call(index: number, count: Count): Promise<void> {
  const ask = askOf(index);
  for (let tried = 0; tried < attemptsMax; tried += 1) {
    await sandbox.untilUp();
    count.attempts += 1;
    const outcome = await sendCut(sandbox.port, ask, placeOf(index, tried));
    if (outcome.kind === "cut") count.cut[outcome.place] += 1;
    if (outcome.kind === "broken" && outcome.isSent) count.killed += 1;
    if (outcome.kind !== "answer") continue;
    if (outcome.answer.headers.get("idempotent-replayed") === "true") count.repeated += 1;
    return assertAnswer(index, outcome.answer);
  }
  assert.fail(`call ${index} was not answered in ${attemptsMax} attempts`);
}

function assertAnswer(index: number, { status, text }: WholeAnswer): void {
  assert.equal(status, 200, text);
  const events = isStreamed(index) ? eventsOf(text) : [];
  const result = JSON.parse(isStreamed(index) ? events.at(-1)!.data : text) as ProcessResponse;
  const of = (type: "stdout" | "stderr"): string =>
    isStreamed(index) ? events.map((event) => (event.type === type ? event.data : "")).join("") : result[type]!;
  assert.deepEqual([result.status, result.exitCode, result.cause?.kind], ["completed", 0, "exit"]);
  assert.equal(of("stdout"), expectedOutput(index));
  assert.equal(of("stderr"), `err ${index}\n`);
}

const endOfWriter = "the end";

async function ask(json: object): Promise<void> {
  const body = JSON.stringify(json);
  const headers = { "content-type": "application/json" };
  const outcome = await sendCut(sandbox.port, { method: "POST", path: "/process", headers, body }, "none");
  assert.ok(outcome.kind === "answer" && outcome.answer.status === 200, JSON.stringify(outcome));
}

/** Follows one process through everything, each time from where it was, and joins what it got. */
async function followWriter(count: Count): Promise<string> {
  let got = "";
  let isOver = false;
  let progressAt = Date.now();
  let cutMaxMs = 400;
  while (!isOver) {
    assert.ok(Date.now() - progressAt < progressMaxMs, `the followed process told nothing for ${progressMaxMs} ms`);
    await sandbox.untilUp();
    const response = await openStream(`/process/writer/logs/stream?stdoutOffset=${got.length}`);
    if (response === undefined) continue;
    assert.equal(response.statusCode, 200);
    let isCut = false;
    const timer = setTimeout(
      () => {
        isCut = true;
        response.destroy(new Error("cut"));
      },
      randomInt(5, cutMaxMs),
    );
    // On a slow machine nothing may come before the cut: the next one comes later.
    cutMaxMs *= 2;
    let rest = "";
    try {
      for await (const chunk of response.setEncoding("utf8") as AsyncIterable<string>) {
        progressAt = Date.now();
        const lines = (rest + chunk).split("\n");
        rest = lines.pop()!;
        for (const line of lines) {
          const { type, data, offset } = JSON.parse(line) as Event & { offset: number };
          cutMaxMs = 400;
          if (type === "result") isOver = true;
          if (type !== "stdout") continue;
          assert.equal(offset, got.length);
          got += data;
        }
      }
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      if (isCut) count.followed += 1;
    }
    clearTimeout(timer);
  }
  return got;
}

/** Undefined when the daemon is just being replaced. */
function openStream(path: string): Promise<IncomingMessage | undefined> {
  const headers = { accept: "application/x-ndjson" };
  return new Promise((resolve) => {
    sendRequest({ host: "127.0.0.1", port: sandbox.port, path, agent: false, headers }, resolve)
      .setTimeout(progressMaxMs, () => resolve(undefined))
      .once("error", () => resolve(undefined))
      .end();
  });
}

function assertRanOnce(): void {
  const ran = readFileSync(join(sandbox.directory, "ran"), "utf8").trim().split("\n").map(Number);
  const seen = new Set(ran);
  const missing = Array.from({ length: calls }, (_, index) => index).filter((index) => !seen.has(index));
  assert.deepEqual(missing, [], "these were answered and did not run");
  assert.deepEqual(ran.length - seen.size, 0, "so many ran more than once");
}

test(`${calls} starts through broken connections and ${kills} kills run once each`, {
  timeout: 1_100_000,
}, async (t) => {
  const until = `[ ! -e ${sandbox.directory}/over ]`;
  const writer = `i=0; while ${until}; do echo "line $i"; i=$((i+1)); [ $((i % 200)) = 0 ] && sleep 0.1; done; echo ${endOfWriter}`;
  await ask({ command: writer, name: "writer" });
  const cut = Object.fromEntries(cutPlaces.map((place) => [place, 0])) as Record<CutPlace, number>;
  const count: Count = { attempts: 0, repeated: 0, killed: 0, cut, followed: 0 };
  const following = followWriter(count);
  following.catch(() => undefined);
  let next = 0;
  let killing: Promise<void> = Promise.resolve();
  const pids = new Set([sandbox.daemonPid]);
  const work = async (): Promise<void> => {
    for (let index = next++; index < calls; index = next++) {
      if (index % Math.ceil(calls / (kills + 1)) === 1 && index > 1) {
        killing = killing.then(() => sandbox.restart()).then(() => void pids.add(sandbox.daemonPid));
      }
      await call(index, count);
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
  await killing;
  await ask({ command: `touch ${sandbox.directory}/over` });

  const lines = (await withDeadline(following, progressMaxMs, "the followed process does not end")).split("\n");
  t.diagnostic(`${JSON.stringify(count)}, ${lines.length} lines followed`);
  assertRanOnce();
  assert.deepEqual(lines.splice(-2), [endOfWriter, ""]);
  for (const [index, line] of lines.entries()) assert.equal(line, `line ${index}`);
  assert.deepEqual([sandbox.kills, pids.size], [kills, kills + 1], "every kill ended a daemon and another came");
  assert.ok(count.killed > 0, "no kill met a request");
  for (const place of cutPlaces) assert.ok(count.cut[place] > calls / 100, `${count.cut[place]} cuts at '${place}'`);
  assert.ok(count.followed > 0, "the followed stream was never cut");
  assert.ok(count.repeated > calls / 5, `${count.repeated} answers were of earlier starts`);
});
