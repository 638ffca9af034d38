// The limit on processes in real sandboxes: whoever fails at it is told, and nobody else.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";

const processesMax = 128;
const limit = processesMax - processesMax / 8;

let platform: SpawnedPlatform;
before(async () => {
  platform = await spawnPlatform({
    CATNAP_IDLE_TIMEOUT: "10m",
    CATNAP_WARM_INSTANCES: "0",
    CATNAP_PROCESSES_MAX: String(processesMax),
  });
});
after(() => platform[Symbol.asyncDispose]());

type Ended = {
  status: string;
  exitCode: number | null;
  cause: { kind: string; processLimit?: number; message: string };
};

async function create(name: string) {
  await platform.call("POST", "/v0/sandboxes", { metadata: { name }, spec: { runtime: { memory: 512 } } });
  const call = (method: string, path: string, body?: unknown) =>
    platform.call(method, `/run/main/sandboxes/${name}${path}`, body);
  return {
    call,
    run: async (command: string, more: object = {}): Promise<Ended> =>
      (await call("POST", "/process", { command, waitForCompletion: true, ...more })) as Ended,
    [Symbol.asyncDispose]: async () => void (await platform.call("DELETE", `/v0/sandboxes/${name}`)),
  };
}

const python = (script: string): string => `exec python3 -c '${script}'`;

/** Forks until it is refused, ends its children and fails. */
const tidy = python(`import os, signal, sys, time
children = []
try:
    while True:
        pid = os.fork()
        if pid == 0: time.sleep(1000)
        children.append(pid)
except OSError: pass
for pid in children: os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
sys.exit(1)`);

test("a program that is refused a process, ends those it has and fails, is told with the limit; a failure before and after is not", async () => {
  await using sandbox = await create("tidy");
  const before = await sandbox.run("exit 3");
  assert.deepEqual(before.cause, { kind: "exit", message: "It ended with code 3." });
  const failed = await sandbox.run(tidy);
  assert.deepEqual([failed.exitCode, failed.cause.kind, failed.cause.processLimit], [1, "exit", limit]);
  assert.match(failed.cause.message, new RegExp(`stood at their limit of ${limit}.*CATNAP_PROCESSES_MAX`));
  const after = await sandbox.run("kill -ABRT $$");
  assert.deepEqual(after.cause, { kind: "signal", signal: "SIGABRT", message: "It died of SIGABRT." });
});

test("a bash that starts programs until it cannot, and whoever fails beside them, are told; success is success", {
  timeout: 400_000,
}, async () => {
  await using sandbox = await create("bash");
  const failed = await sandbox.run("exec bash -c 'while :; do sleep 1000 & done'");
  assert.notEqual(failed.exitCode, 0);
  assert.equal(failed.cause.processLimit, limit);
  const beside = await sandbox.run("echo $(cat /dev/null)");
  assert.notEqual(beside.exitCode, 0);
  assert.equal(beside.cause.processLimit, limit);
  assert.deepEqual((await sandbox.run("exit 0")).cause, { kind: "exit", message: "It ended with code 0." });
  await using neighbour = await create("neighbour");
  assert.deepEqual((await neighbour.run("exit 4")).cause, { kind: "exit", message: "It ended with code 4." });
});

test("when several users have taken all there is, a start is refused with the number, and works again with room", async () => {
  await using sandbox = await create("users");
  // They take every place that comes free: a run that is tried before all are taken leaves one.
  const fill = python(`import os, time
def fill(user):
    os.setuid(user)
    while True:
        try:
            if os.fork() == 0: time.sleep(1000)
        except OSError: time.sleep(0.01)
if os.fork() == 0: fill(1001)
fill(1002)`);
  await sandbox.call("POST", "/process", { name: "fill", command: fill });
  const refused = await eventually(async () => {
    const error = await sandbox.run("true").then(
      () => assert.fail("it started"),
      (failure: Error) => failure,
    );
    assert.match(error.message, /No process can be started/);
    return error;
  });
  assert.match(refused.message, new RegExp(`answered 422: .*limit of ${processesMax} processes.*CATNAP_PROCESSES_MAX`));
  await sandbox.call("DELETE", "/process/fill/kill");
  await eventually(async () => assert.equal((await sandbox.run("true")).exitCode, 0));
});
