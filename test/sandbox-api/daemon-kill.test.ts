// The daemon is killed at random points under load: nothing runs twice, nothing acknowledged is lost, logs stay exact.
import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { ProcessLogs, ProcessResponse } from "../../src/contract/sandbox-api/process.ts";
import { eventually } from "../eventually.ts";
import { SpawnedSandbox, withDeadline } from "./spawned-sandbox.ts";

const rounds = 15;
const lines = 250_000;
let sandbox: SpawnedSandbox;

before(async () => {
  sandbox = await SpawnedSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());

async function post(json: object): Promise<ProcessResponse> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${sandbox.url}/process`, { method: "POST", headers, body: JSON.stringify(json) });
  assert.equal(response.status, 200, await response.clone().text());
  return (await response.json()) as ProcessResponse;
}

async function get<Answer>(path: string): Promise<Answer> {
  const response = await fetch(`${sandbox.url}${path}`);
  assert.equal(response.status, 200, await response.clone().text());
  return (await response.json()) as Answer;
}

/** Starts processes one after another until told to stop; remembers which starts were acknowledged. */
async function keepStarting(worker: number, isOver: () => boolean, started: Map<string, boolean>): Promise<void> {
  for (let index = 0; !isOver(); index += 1) {
    const name = `w${worker}-${index}`;
    const command = `echo ${name} >> ${sandbox.directory}/ran; echo out-${name}; echo err-${name} >&2`;
    started.set(name, false);
    try {
      await post({ name, command, waitForCompletion: index % 2 === 0 });
      started.set(name, true);
    } catch {
      // The daemon was killed meanwhile: whether this one ran is found out at the end.
      await sandbox.untilUp();
    }
  }
}

test(`${rounds} kills lose nothing`, async () => {
  const writer = `i=0; while [ $i -lt ${lines} ]; do echo "line $i"; [ $((i % 5)) = 0 ] && echo "err $i" >&2; i=$((i+1)); done`;
  const { pid } = await post({ name: "writer", command: writer, keepAlive: true, timeout: 0 });
  const started = new Map<string, boolean>();
  let isOver = false;
  const workers = [0, 1, 2].map((worker) => keepStarting(worker, () => isOver, started));
  for (let round = 0; round < rounds; round += 1) {
    await delay(randomInt(20, 250));
    await sandbox.restart();
  }
  isOver = true;
  await withDeadline(Promise.all(workers), 60_000, "a start is not answered");
  assert.equal(sandbox.kills, rounds);
  assert.ok([...started.values()].includes(false), "no kill met a start");
  const all = await eventually(async () => {
    const found = await get<ProcessResponse[]>("/process");
    assert.ok(found.every(({ status }) => status !== "running"));
    return found;
  });

  const written = all.find(({ name }) => name === "writer")!;
  assert.deepEqual([written.pid, written.status, written.exitCode], [pid, "completed", 0]);
  const { stdout, stderr } = await get<ProcessLogs>("/process/writer/logs");
  const numbers = Array.from({ length: lines }, (_, index) => index);
  assert.equal(stdout, numbers.map((number) => `line ${number}\n`).join(""));
  assert.equal(
    stderr,
    numbers
      .filter((number) => number % 5 === 0)
      .map((number) => `err ${number}\n`)
      .join(""),
  );

  const ran = readFileSync(join(sandbox.directory, "ran"), "utf8").trim().split("\n");
  assert.equal(new Set(ran).size, ran.length, "something ran twice");
  for (const [name, isAcknowledged] of started) {
    const found = all.filter((process) => process.name === name);
    const didRun = ran.includes(name);
    if (isAcknowledged) assert.ok(didRun, `${name} was acknowledged and did not run`);
    assert.equal(found.length, didRun ? 1 : 0, `${name} ran: ${didRun}, records: ${found.length}`);
    if (!didRun) continue;
    assert.deepEqual([found[0]!.status, found[0]!.exitCode], ["completed", 0], name);
    const logs = await get<ProcessLogs>(`/process/${name}/logs`);
    assert.deepEqual([logs.stdout, logs.stderr], [`out-${name}\n`, `err-${name}\n`]);
  }
});
