// What happens to processes when the daemon goes and comes back, and when the machine dies.
import assert from "node:assert/strict";
import { appendFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import type { ProcessLogs, ProcessResponse } from "../../src/contract/sandbox-api/process.ts";
import { eventually, inTime } from "../eventually.ts";
import { TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
beforeEach(async () => {
  sandbox = await TestSandbox.start();
});
afterEach(() => sandbox[Symbol.asyncDispose]());

async function start(json: object): Promise<ProcessResponse> {
  const answer = await sandbox.ask("POST", "/process", { json });
  assert.equal(answer.status, 200, answer.text);
  return answer.json as ProcessResponse;
}

async function get(identifier: string): Promise<ProcessResponse> {
  return (await sandbox.ask("GET", `/process/${identifier}`)).json as ProcessResponse;
}

async function ended(identifier: string): Promise<ProcessResponse> {
  return eventually(async () => {
    const found = await get(identifier);
    assert.notEqual(found.status, "running");
    return found;
  });
}

async function logs(identifier: string): Promise<ProcessLogs> {
  return (await sandbox.ask("GET", `/process/${identifier}/logs`)).json as ProcessLogs;
}

test("output stays byte-exact over many restarts of the daemon while the process writes", async () => {
  const count = 150_000;
  const command = `i=0; while [ $i -lt ${count} ]; do echo "line $i"; [ $((i % 3)) = 0 ] && echo "err $i" >&2; i=$((i+1)); done`;
  await start({ command, name: "writer" });
  for (let round = 0; round < 10; round += 1) {
    const seen = (await logs("writer")).stdout.length;
    await eventually(async () => {
      const { stdout } = await logs("writer");
      assert.ok(stdout.length > seen || (await get("writer")).status !== "running");
    });
    await sandbox.restart();
  }
  assert.equal((await ended("writer")).exitCode, 0);
  const numbers = Array.from({ length: count }, (_, index) => index);
  const found = await logs("writer");
  assert.equal(found.stdout, numbers.map((number) => `line ${number}\n`).join(""));
  assert.equal(
    found.stderr,
    numbers
      .filter((number) => number % 3 === 0)
      .map((number) => `err ${number}\n`)
      .join(""),
  );
});

test("a process that ends while no daemon is there is found with its exit code", async () => {
  const { pid } = await start({ command: "echo before; sleep 0.3; echo after; exit 7", name: "alone" });
  await eventually(async () => assert.equal((await logs("alone")).stdout, "before\n"));
  await sandbox.close();
  await eventually(() => assert.throws(() => process.kill(Number(pid), 0)));
  await sandbox.open();
  const found = await ended("alone");
  assert.deepEqual([found.pid, found.status, found.exitCode, found.stdout], [pid, "failed", 7, "before\nafter\n"]);
});

test("ended processes are there after a restart, with their output", async () => {
  await start({ command: "echo kept; exit 5", name: "past", waitForCompletion: true });
  const before = await get("past");
  await sandbox.restart();
  assert.deepEqual(await get("past"), before);
  assert.equal((await sandbox.ask("GET", "/process/past/logs/stream")).text, "stdout:kept\n");
});

test("a running process keeps its pid and name and can be killed after a restart", async () => {
  const { pid } = await start({ command: "sleep 60", name: "survivor" });
  await sandbox.restart();
  const found = await get("survivor");
  assert.deepEqual([found.pid, found.status], [pid, "running"]);
  const taken = await sandbox.ask("POST", "/process", { json: { command: "true", name: "survivor" } });
  assert.equal(taken.status, 400);
  await sandbox.ask("DELETE", `/process/${pid}/kill`);
  assert.deepEqual([(await ended("survivor")).status, (await get("survivor")).exitCode], ["killed", 137]);
});

test("keepAlive holds the sandbox awake again after a restart, and its deadline still counts", async () => {
  const attempt = async (): Promise<void> => {
    await start({ command: "sleep 60", name: "awake", keepAlive: true, timeout: 2 });
    assert.equal(sandbox.awakeCount, 1);
    await sandbox.close();
    assert.equal(sandbox.awakeCount, 0);
    await sandbox.open();
    assert.equal(sandbox.awakeCount, 1);
  };
  const again = async (): Promise<void> => {
    await sandbox[Symbol.asyncDispose]();
    sandbox = await TestSandbox.start();
  };
  await inTime(2_000, { attempt, again });
  const found = await ended("awake");
  assert.deepEqual([found.status, found.exitCode], ["killed", 137]);
  assert.equal(sandbox.awakeCount, 0);
});

test("a process that is lost with the machine is killed, without an invented exit code", async () => {
  await start({ command: "echo here; sleep 60", name: "lost", keepAlive: true });
  await eventually(async () => assert.equal((await logs("lost")).stdout, "here\n"));
  const waiting = sandbox.ask("GET", "/process/lost/logs/stream");
  await sandbox.session.guestLost();
  assert.equal((await waiting).text, "stdout:here\n");
  const found = await get("lost");
  assert.deepEqual([found.status, found.exitCode, found.stdout], ["killed", null, "here\n"]);
  assert.ok(found.completedAt);
  assert.equal(sandbox.awakeCount, 0);
});

test("a record torn off at the end of a log by a crash is cut and written again", async () => {
  await start({ command: "echo one; sleep 1; echo two", name: "torn" });
  await eventually(async () => assert.equal((await logs("torn")).stdout, "one\n"));
  await sandbox.close();
  const directory = join(sandbox.stateDir, "processes");
  const log = readdirSync(directory).find((name) => name.endsWith(".log"))!;
  const whole = readFileSync(join(directory, log));
  appendFileSync(join(directory, log), whole.subarray(24, 24 + 17));
  await sandbox.open();
  const found = await ended("torn");
  assert.deepEqual([found.stdout, found.exitCode], ["one\ntwo\n", 0]);
});

test("a record that cannot be read is left out and the others are served", async () => {
  await start({ command: "true", name: "fine", waitForCompletion: true });
  await sandbox.close();
  writeFileSync(join(sandbox.stateDir, "processes", "aaaaaaaaaaaaaaaaaaaa.json"), '{"tok');
  await sandbox.open();
  const list = (await sandbox.ask("GET", "/process")).json as ProcessResponse[];
  assert.deepEqual(
    list.map(({ name }) => name),
    ["fine"],
  );
});

test("a process reserved but never started is forgotten after a restart", async () => {
  await start({ command: "true", name: "template", waitForCompletion: true });
  await sandbox.close();
  const directory = join(sandbox.stateDir, "processes");
  const name = readdirSync(directory).find((entry) => entry.endsWith(".json"))!;
  const record = JSON.parse(readFileSync(join(directory, name), "utf8")) as Record<string, unknown>;
  const token = "bbbbbbbbbbbbbbbbbbbb";
  const reserved = { ...record, token, name: "ghost", phase: "reserved", status: "running" };
  writeFileSync(join(directory, `${token}.json`), JSON.stringify(reserved));
  await sandbox.open();
  assert.equal((await sandbox.ask("GET", "/process/ghost")).status, 404);
  assert.ok(!readdirSync(directory).includes(`${token}.json`));
});
