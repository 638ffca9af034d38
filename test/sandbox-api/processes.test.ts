// Processes over HTTP: starting, waiting, finding, ending.
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import type { ProcessResponse } from "../../src/contract/sandbox-api/process.ts";
import { eventually } from "../eventually.ts";
import { TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
before(async () => {
  sandbox = await TestSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());

const rfc1123 = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/;

async function run(json: object, status = 200): Promise<ProcessResponse> {
  const answer = await sandbox.ask("POST", "/process", { json });
  assert.equal(answer.status, status, answer.text);
  return answer.json as ProcessResponse;
}

async function get(identifier: string): Promise<ProcessResponse> {
  const answer = await sandbox.ask("GET", `/process/${encodeURIComponent(identifier)}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.json as ProcessResponse;
}

async function ended(identifier: string): Promise<ProcessResponse> {
  return eventually(async () => {
    const found = await get(identifier);
    assert.notEqual(found.status, "running");
    return found;
  });
}

async function errorOf(method: string, path: string, status: number, json?: object): Promise<string> {
  const answer = await sandbox.ask(method, path, { json });
  assert.equal(answer.status, status, answer.text);
  const body = answer.json as Record<string, string>;
  assert.deepEqual(Object.keys(body), ["error"]);
  return body.error!;
}

suite("starting and waiting", () => {
  test("a run that waits answers with its output and exit code", async () => {
    const found = await run({ command: "echo out; echo err >&2; exit 3", waitForCompletion: true });
    assert.equal(found.status, "failed");
    assert.equal(found.exitCode, 3);
    assert.equal(found.stdout, "out\n");
    assert.equal(found.stderr, "err\n");
    assert.equal(found.logs?.length, 8);
    assert.match(found.startedAt, rfc1123);
    assert.match(found.completedAt!, rfc1123);
    assert.match(found.name, /^proc-[a-z0-9]{8}$/);
    assert.match(found.pid, /^\d+$/);
    assert.equal(found.workingDir, sandbox.workingDir);
  });

  test("a run that does not wait answers at once, without output or exit code", async () => {
    const found = await run({ command: "sleep 60", name: "sleeper" });
    assert.equal(found.status, "running");
    assert.deepEqual([found.exitCode, found.completedAt, found.logs, found.stdout, found.stderr], Array(5).fill(null));
    assert.equal((await get("sleeper")).pid, found.pid);
    assert.equal((await get(found.pid)).name, "sleeper");
    assert.equal((await sandbox.ask("DELETE", "/process/sleeper/kill")).status, 200);
  });

  test("environment, working directory and home reach the process", async () => {
    const found = await run({
      command: 'printf "%s|%s|%s|%s" "$FROM_MACHINE" "$OWN" "$HOME" "$(pwd)"',
      env: { OWN: "a b'c", FROM_MACHINE: "replaced" },
      workingDir: "/tmp",
      waitForCompletion: true,
    });
    assert.equal(found.stdout, `replaced|a b'c|${sandbox.homeDir}|/tmp`);
    assert.equal(found.workingDir, "/tmp");
  });

  test("the machine's environment comes first and ~ is the home directory", async () => {
    const found = await run({ command: "printf %s:%s $FROM_MACHINE $(pwd)", workingDir: "~", waitForCompletion: true });
    assert.equal(found.stdout, `yes:${sandbox.homeDir}`);
  });

  test("a missing working directory is 422 and leaves no record", async () => {
    const error = await errorOf("POST", "/process", 422, {
      command: "true",
      name: "nowhere",
      workingDir: "/no/such/place",
    });
    assert.match(error, /folder '\/no\/such\/place' does not exist/);
    await errorOf("GET", "/process/nowhere", 404);
  });

  test("a program that ends by a signal of its own is failed with 128 and the signal", async () => {
    const found = await run({ command: "kill -TERM $$", waitForCompletion: true });
    assert.deepEqual([found.status, found.exitCode], ["failed", 143]);
  });

  test("a waiting run that takes longer than its timeout is 422 and goes on", async () => {
    const error = await errorOf("POST", "/process", 422, {
      command: "sleep 60",
      name: "slow",
      waitForCompletion: true,
      timeout: 1,
    });
    assert.equal(error, "process timed out after 1 seconds");
    assert.equal((await get("slow")).status, "running");
    await sandbox.ask("DELETE", "/process/slow/kill");
  });

  test("output that is not UTF-8 is answered with replacement characters", async () => {
    const found = await run({ command: "printf 'a\\377b'", waitForCompletion: true });
    assert.equal(found.stdout, "a\ufffdb");
  });

  test("a name is taken while its process runs and free afterwards, then meaning the newest", async () => {
    const first = await run({ command: "sleep 60", name: "my proc/1" });
    assert.match(
      await errorOf("POST", "/process", 400, { command: "true", name: "my proc/1" }),
      /already exists and is running/,
    );
    await sandbox.ask("DELETE", `/process/${encodeURIComponent("my proc/1")}/kill`);
    await ended("my proc/1");
    const second = await run({ command: "true", name: "my proc/1", waitForCompletion: true });
    assert.notEqual(second.pid, first.pid);
    assert.equal((await get("my proc/1")).pid, second.pid);
    assert.equal((await get(first.pid)).status, "killed");
  });

  test("the list has running and ended processes, oldest first", async () => {
    await run({ command: "true", name: "list-a", waitForCompletion: true });
    await run({ command: "sleep 60", name: "list-b" });
    const names = ((await sandbox.ask("GET", "/process")).json as ProcessResponse[]).map(({ name }) => name);
    assert.ok(names.indexOf("list-a") >= 0 && names.indexOf("list-a") < names.indexOf("list-b"));
    await sandbox.ask("DELETE", "/process/list-b/kill");
  });
});

suite("refusals", () => {
  const refused: [string, object, RegExp][] = [
    ["no command", {}, /command/],
    ["an empty command", { command: "" }, /command/],
    ["a NUL byte in the command", { command: "a\0b" }, /NUL/],
    ["a number for the command", { command: 1 }, /command/],
    ["a negative timeout", { command: "true", timeout: -1 }, /timeout/],
    ["a variable name with =", { command: "true", env: { "A=B": "c" } }, /env/],
    ["a port that is none", { command: "true", waitForPorts: [0] }, /waitForPorts/],
    ["too many ports", { command: "true", waitForPorts: Array(65).fill(80) }, /waitForPorts/],
    ["half a restart", { command: "true", restartOnFailure: true, maxRestarts: 1.5 }, /maxRestarts/],
    ["a NUL byte in a variable", { command: "true", env: { A: "c\0" } }, /env/],
  ];
  for (const [what, body, message] of refused) {
    test(`${what} is 400`, async () => {
      assert.match(await errorOf("POST", "/process", 400, body), message);
    });
  }

  test("members nobody knows, switched-off ones and nulls are ignored", async () => {
    const found = await run({
      name: null,
      env: null,
      command: "true",
      waitForCompletion: true,
      restartOnFailure: false,
      maxRestarts: 0,
      zzz: 1,
    });
    assert.equal(found.status, "completed");
  });

  for (const path of ["/process/nope", "/process/nope/logs", "/process/nope/logs/stream"]) {
    test(`GET ${path} is 404`, async () => {
      assert.match(await errorOf("GET", path, 404), /not found/);
    });
  }
});

suite("ending", () => {
  test("stop sends SIGTERM and names the end stopped", async () => {
    await run({ command: "trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done", name: "stop-me" });
    await eventually(async () => assert.equal((await get("stop-me")).status, "running"));
    const answer = await sandbox.ask("DELETE", "/process/stop-me");
    assert.deepEqual([answer.status, answer.json], [200, { message: "Process stopped successfully" }]);
    assert.equal((await ended("stop-me")).status, "stopped");
    assert.match(await errorOf("DELETE", "/process/stop-me", 404), /not running/);
  });

  test("kill ends the whole process group", async () => {
    await run({ command: "sleep 61.5 & echo $!; wait", name: "kill-me" });
    const child = await eventually(async () => {
      const { stdout } = await get("kill-me");
      assert.match(stdout!, /^\d+\n$/);
      return stdout!.trim();
    });
    const answer = await sandbox.ask("DELETE", "/process/kill-me/kill");
    assert.deepEqual([answer.status, answer.json], [200, { message: "Process killed successfully" }]);
    const found = await ended("kill-me");
    assert.deepEqual([found.status, found.exitCode], ["killed", 137]);
    await eventually(async () => {
      const alive = await run({ command: `kill -0 ${child}`, waitForCompletion: true });
      assert.notEqual(alive.exitCode, 0);
    });
    await errorOf("DELETE", "/process/kill-me/kill", 404);
  });
});

suite("keepAlive", () => {
  test("holds the sandbox awake while it runs", async () => {
    await run({ command: "sleep 60", name: "awake", keepAlive: true, timeout: 0 });
    assert.equal(sandbox.awakeCount, 1);
    await sandbox.ask("DELETE", "/process/awake/kill");
    await ended("awake");
    assert.equal(sandbox.awakeCount, 0);
  });

  test("is killed at its timeout", async () => {
    const found = await run({ command: "sleep 60", keepAlive: true, timeout: 1, waitForCompletion: true });
    assert.deepEqual([found.status, found.exitCode, found.keepAlive], ["killed", 137, true]);
    assert.equal(sandbox.awakeCount, 0);
  });
});
