// Processes that fail: run again or not, and why they ended.
import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, suite, test } from "node:test";
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

/** Before the pause of a second after a first failure is over; each attempt on a sandbox of its own. */
function inPause(attempt: () => Promise<void>): Promise<void> {
  const again = async (): Promise<void> => {
    await sandbox[Symbol.asyncDispose]();
    sandbox = await TestSandbox.start();
  };
  return inTime(1_000, { attempt, again });
}

/** Every run leaves a line here. */
const ran = (): string[] => readFileSync(join(sandbox.workingDir, "ran"), "utf8").trim().split("\n");
const failing = (code: number, output = "echo out"): string => `echo run >> ran; ${output}; exit ${code}`;

suite("restarts", () => {
  test("a process that fails is run again as often as allowed, under its pid and name", async () => {
    const first = await start({ command: failing(3), name: "fails", restartOnFailure: true, maxRestarts: 2 });
    assert.deepEqual([first.restartOnFailure, first.maxRestarts, first.restartCount], [true, 2, 0]);
    const found = await ended("fails");
    assert.deepEqual([found.pid, found.status, found.exitCode, found.restartCount], [first.pid, "failed", 3, 2]);
    assert.equal(
      found.stdout,
      "out\n[process exited with code 3; restart 1 of 2]\nout\n[process exited with code 3; restart 2 of 2]\nout\n",
    );
    assert.deepEqual(ran(), ["run", "run", "run"]);
    assert.equal((await get(first.pid)).name, "fails");
  });

  test("success ends it, a line that was not finished is, and who waits gets all of it", async () => {
    const command = "if [ -e ran ]; then echo done; else printf half; touch ran; kill -SEGV $$; fi";
    const found = await start({ command, restartOnFailure: true, maxRestarts: 5, waitForCompletion: true });
    assert.deepEqual([found.status, found.exitCode, found.restartCount], ["completed", 0, 1]);
    assert.equal(found.stdout, "half\n[process died of signal 11; restart 1 of 5]\ndone\n");
  });

  test("without a number there is no restart, and without the wish neither", async () => {
    const none = await start({ command: failing(1), restartOnFailure: true, waitForCompletion: true });
    const not = await start({ command: failing(1), maxRestarts: 3, waitForCompletion: true });
    assert.deepEqual([none.restartCount, not.restartCount, not.restartOnFailure], [0, 0, false]);
    assert.equal(ran().length, 2);
  });

  for (const how of ["", "/kill"]) {
    test(`DELETE ${how} in the pause ends it for good`, async () => {
      await inPause(async () => {
        await start({ command: failing(1), name: "paused", restartOnFailure: true, maxRestarts: -1, keepAlive: true });
        await eventually(async () => assert.equal((await get("paused")).restartCount, 1));
        const paused = await get("paused");
        assert.deepEqual([paused.status, paused.exitCode, sandbox.awakeCount], ["running", null, 1]);
        assert.equal((await sandbox.ask("DELETE", `/process/paused${how}`)).status, 200);
        assert.equal(ran().length, 1);
      });
      const found = await get("paused");
      assert.deepEqual([found.status, found.cause?.by], how === "" ? ["stopped", "stop"] : ["killed", "kill"]);
      assert.equal((await sandbox.ask("DELETE", `/process/paused${how}`)).status, 404);
      assert.deepEqual([ran().length, sandbox.awakeCount], [1, 0]);
    });
  }

  test("a stop of a running one ends it for good, whatever its code", async () => {
    const command = "trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done";
    await start({ command, name: "trapped", restartOnFailure: true, maxRestarts: -1 });
    await eventually(async () => assert.equal((await get("trapped")).stdout, "up\n"));
    await sandbox.ask("DELETE", "/process/trapped");
    const found = await ended("trapped");
    assert.deepEqual([found.status, found.exitCode, found.restartCount], ["stopped", 9, 0]);
  });

  test("the deadline of keepAlive counts over all runs", async () => {
    const found = await start({
      command: failing(1, "sleep 0.1"),
      restartOnFailure: true,
      maxRestarts: -1,
      keepAlive: true,
      timeout: 5,
      waitForCompletion: true,
    });
    // A pause of a second stands between two of them; a slow machine has fewer.
    assert.ok(ran().length >= 2 && ran().length <= 6);
    assert.equal(sandbox.awakeCount, 0);
    assert.notEqual(found.status, "completed");
  });

  test("a daemon that goes in the pause, or in a run, is followed by one that goes on; each run happens once", async () => {
    const command = 'n=$(wc -l < ran 2>/dev/null); echo "run $n" >> ran; echo "out $n"; sleep 0.4; exit 5';
    await start({ command, name: "long", restartOnFailure: true, maxRestarts: 4, env: { SECRET: "hush-hush" } });
    const records = readdirSync(join(sandbox.stateDir, "processes")).filter((name) => name.endsWith(".json"));
    for (const name of records) {
      assert.ok(!readFileSync(join(sandbox.stateDir, "processes", name), "utf8").includes("hush-hush"));
    }
    const seen = new Set<number>();
    for (let round = 0; round < 25 && (await get("long")).status === "running"; round += 1) {
      seen.add((await get("long")).restartCount!);
      await sandbox.restart();
      await new Promise((resolve) => setTimeout(resolve, 50 + ((round * 97) % 300)));
    }
    const found = await ended("long");
    assert.deepEqual([found.status, found.exitCode, found.restartCount], ["failed", 5, 4]);
    assert.equal(ran().length, 5);
    const markers = [1, 2, 3, 4].map((count) => `[process exited with code 5; restart ${count} of 4]\n`);
    const outputs = ran().map((line) => `${line.replace("run", "out")}\n`);
    assert.equal((await logs("long")).stdout, outputs.map((line, index) => line + (markers[index] ?? "")).join(""));
  });

  test("a marker that a crash kept from the log is written by the next daemon, whole or its rest", async () => {
    await inPause(async () => {
      await start({ command: failing(1), name: "marked", restartOnFailure: true, maxRestarts: 1 });
      await eventually(async () => assert.equal((await get("marked")).restartCount, 1));
      await sandbox.close();
      assert.equal(ran().length, 1);
    });
    const directory = join(sandbox.stateDir, "processes");
    const log = join(directory, readdirSync(directory).find((name) => name.endsWith(".log"))!);
    const whole = readFileSync(log);
    const outBytes = 24 + 16 + "out\n".length;
    assert.ok(whole.length > outBytes + 16);
    writeFileSync(log, whole.subarray(0, outBytes + 7));
    await sandbox.open();
    assert.equal((await ended("marked")).stdout, "out\n[process exited with code 1; restart 1 of 1]\nout\n");
  });

  test("one that waits is lost with the machine and not started in the next", async () => {
    await inPause(async () => {
      await start({ command: failing(1), name: "gone", restartOnFailure: true, maxRestarts: -1 });
      await eventually(async () => assert.equal((await get("gone")).restartCount, 1));
      await sandbox.close();
      assert.equal(ran().length, 1);
    });
    sandbox.startCount += 1;
    await sandbox.open();
    const found = await get("gone");
    assert.deepEqual([found.status, found.exitCode, found.cause?.by], ["killed", null, "platform"]);
    assert.equal(ran().length, 1);
  });
});

suite("causes", () => {
  const cases: [string, object, object][] = [
    ["success", { command: "true" }, { kind: "exit", message: "It ended with code 0." }],
    ["a code", { command: "exit 7" }, { kind: "exit", message: "It ended with code 7." }],
    ["a crash", { command: "kill -SEGV $$" }, { kind: "signal", signal: "SIGSEGV", message: "It died of SIGSEGV." }],
    ...["SIGKILL", "SIGTERM"].map((signal): [string, object, object] => [
      `a ${signal} from inside`,
      { command: `kill -${signal.slice(3)} $$` },
      { kind: "signal", by: "sandbox", signal, message: `It died of ${signal}, sent by a process of the sandbox.` },
    ]),
    [
      "a timeout",
      { command: "sleep 60", keepAlive: true, timeout: 1 },
      { kind: "killed_by", by: "timeout", signal: "SIGKILL", message: "It was killed because its timeout was over." },
    ],
  ];
  for (const [what, request, cause] of cases) {
    test(`${what} is told`, async () => {
      assert.deepEqual((await start({ ...request, waitForCompletion: true })).cause, cause);
    });
  }

  test("a running process has none, a stopped and a killed one have their ender, also after a restart", async () => {
    for (const name of ["stop", "kill"]) await start({ command: "sleep 60", name });
    assert.equal((await get("stop")).cause, null);
    await sandbox.ask("DELETE", "/process/stop");
    await sandbox.ask("DELETE", "/process/kill/kill");
    for (const name of ["stop", "kill"]) await ended(name);
    await sandbox.restart();
    for (const name of ["stop", "kill"]) {
      const { cause } = await get(name);
      assert.deepEqual([cause?.kind, cause?.by], ["killed_by", name]);
    }
  });
});
