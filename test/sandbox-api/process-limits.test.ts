// How much of processes is kept: records, output of all together, running ones.
import assert from "node:assert/strict";
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import type { Machine } from "../../src/sandbox-api/machine.ts";
import { readTail } from "../../src/sandbox-api/processes/output-tail.ts";
import type { Process } from "../../src/sandbox-api/processes/process.ts";
import { Processes, type ProcessLimits, processLimits } from "../../src/sandbox-api/processes/processes.ts";
import { type RunningGuest, startGuest } from "../guest/start-guest.ts";
import { log, stateKey } from "./harness.ts";

let guest: RunningGuest;
let processes: Processes;
let close: () => Promise<void>;
const never = new AbortController().signal;
beforeEach(async () => {
  guest = await startGuest();
});
afterEach(async () => {
  await close();
  await guest[Symbol.asyncDispose]();
});

async function open(limits: Partial<ProcessLimits>): Promise<void> {
  const connection = await guest.open();
  const stateDir = join(guest.dir, "state");
  mkdirSync(stateDir, { recursive: true });
  const machine: Machine = {
    instanceId: "test",
    workspace: "main",
    sandboxName: "test",
    stateDir,
    environment: {},
    workingDir: "/",
    homeDir: "/",
    searchProgram: "",
    guest: connection,
    upgradeCount: 0,
    stateKey,
    startCount: 0,
    upgrade: (binary) => connection.upgrade(binary),
    initDigest: "",
    isAsleep: false,
    touch: () => undefined,
    holdAwake: () => ({ [Symbol.dispose]: () => undefined }),
  };
  processes = new Processes(machine, log, { ...processLimits, ...limits });
  close = async () => {
    await connection[Symbol.asyncDispose]();
    await processes[Symbol.asyncDispose]();
  };
  await connection.attach({ sink: processes.sink, onConnected: (known) => processes.guestConnected(known) });
}

async function run(command: string, name?: string): Promise<Process> {
  const process = await start(command, name);
  await process.waitForEnd(never);
  return process;
}

async function start(command: string, name?: string): Promise<Process> {
  const argv = ["/bin/sh", "-c", command];
  const environment = { PATH: "/usr/bin:/bin" };
  const request = { name, command, argv, workingDir: "/", environment, keepAlive: false, timeoutMs: undefined };
  return (await processes.start(request)).process;
}

test("of ended processes the newest are kept, also after a restart", async () => {
  await open({ endedMax: 3 });
  await start("sleep 60", "runs");
  for (const name of ["a", "b", "c", "d", "e"]) await run(`echo ${name}`, name);
  const names = (): string[] => processes.list().map(({ record }) => record.name);
  assert.deepEqual(names(), ["runs", "c", "d", "e"]);
  const files = readdirSync(join(guest.dir, "state/processes"));
  assert.equal(files.filter((file) => file.endsWith(".json")).length, 4);
  assert.equal(files.filter((file) => file.endsWith(".log")).length, 3);
  await close();
  await open({ endedMax: 2 });
  assert.deepEqual(names(), ["runs", "d", "e"]);
  await processes.get("runs").end("kill");
});

test("when all output together is too much, the oldest ended process loses its own first", async () => {
  await open({ journalsMaxBytes: 3 * 1024 * 1024 });
  const written = "head -c 1000000 /dev/zero | tr '\\0' x";
  for (const name of ["a", "b", "c", "d"]) await run(written, name);
  const [a, b, d] = ["a", "b", "d"].map((name) => processes.get(name));
  assert.equal(a!.journal.bytes, 0);
  assert.ok(b!.journal.bytes > 1_000_000 && d!.journal.bytes > 1_000_000);
  const tail = await readTail(a!.journal, 4 * 1024 * 1024, "a");
  assert.equal(tail.stdout, "[... 1000000 earlier bytes are not shown; the log is at /process/a/logs/stream ...]\n");
  assert.equal((await readTail(d!.journal, 4 * 1024 * 1024, "d")).stdout.length, 1_000_000);
});

test("a single process that writes without end stays below the limit", async () => {
  await open({ journalsMaxBytes: 9 * 1024 * 1024 });
  const process = await run("head -c 40000000 /dev/zero");
  assert.ok(process.journal.bytes <= 9 * 1024 * 1024 + 2 * 1024 * 1024);
  assert.equal(process.journal.written.stdout, 40_000_000);
});

test("more running processes than allowed are refused", async () => {
  await open({ runningMax: 2 });
  const first = await start("sleep 60");
  const second = await start("sleep 60");
  await assert.rejects(start("true"), { code: "rate_limited" });
  for (const process of [first, second]) await process.end("kill");
  await Promise.all([first, second].map((process) => process.waitForEnd(never)));
  assert.equal((await run("true")).record.exitCode, 0);
});

test("the descriptor of a log is given back at the end, and a command is repeated only in part", async () => {
  await open({});
  const process = await run(`echo ${"x".repeat(100_000)}`);
  assert.equal(process.journal.written.stdout, 100_001);
  assert.match(process.record.command, /^echo x+ \[\.\.\. \d+ more characters \.\.\.\]$/);
  assert.ok(process.record.command.length < 9_000);
});
