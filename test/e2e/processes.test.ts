// Processes of real sandboxes: memory that runs out, machines that die, a platform that is killed, ports and input through the edge.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";

let platform: SpawnedPlatform;

before(async () => {
  platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "500ms", CATNAP_WARM_INSTANCES: "1" });
  for (const name of ["small", "work"]) {
    await platform.call("POST", "/v0/sandboxes", { metadata: { name }, spec: { runtime: { memory: 256 } } });
  }
});
after(() => platform[Symbol.asyncDispose]());

type Found = Record<string, unknown> & { cause: { kind: string; by?: string; signal?: string } | null };
const at = (name: string, path: string): string => `/run/main/sandboxes/${name}${path}`;
const start = async (name: string, json: object): Promise<Found> =>
  (await platform.call("POST", at(name, "/process"), json)) as Found;
const get = async (name: string, identifier: string): Promise<Found> =>
  (await platform.call("GET", at(name, `/process/${identifier}`))) as Found;

async function ended(name: string, identifier: string): Promise<Found> {
  return eventually(async () => {
    const found = await get(name, identifier);
    assert.notEqual(found.status, "running");
    return found;
  });
}

test("a process that is killed for want of memory says so, and so does its sandbox", async () => {
  const eat = "x=$(head -c 900000000 /dev/zero | tr '\\0' x)";
  const found = await start("small", { command: eat, waitForCompletion: true });
  assert.deepEqual([found.status, found.exitCode, found.cause?.kind], ["killed", 137, "out_of_memory"]);
  const { errors } = (await platform.call("GET", "/v0/sandboxes/small")) as { errors: { code: string }[] };
  assert.ok(errors.some(({ code }) => code === "OUT_OF_MEMORY"));
  const byHand = await start("small", { command: "kill -KILL $$", waitForCompletion: true });
  assert.deepEqual([byHand.status, byHand.cause?.kind], ["killed", "signal"]);
});

test("a server is waited for, fed and run again after it has failed, across a platform that is killed", async () => {
  const command = "read line; echo got $line; exit 1";
  const json = {
    command,
    name: "fed",
    stdin: true,
    restartOnFailure: true,
    maxRestarts: 3,
    keepAlive: true,
    timeout: 0,
  };
  const { pid } = await start("work", json);
  for (let run = 0; run <= 3; run += 1) {
    await eventually(async () => {
      const { restartCount } = await get("work", "fed");
      assert.equal(restartCount, run);
      await platform.call("POST", at("work", "/process/fed/stdin"), `${run}`);
      await platform.call("DELETE", at("work", "/process/fed/stdin"));
    });
    if (run === 1) {
      await platform.kill();
      await platform.start();
    }
  }
  const found = await ended("work", "fed");
  assert.deepEqual([found.pid, found.status, found.exitCode, found.restartCount], [pid, "failed", 1, 3]);
  const said = String(found.stdout).match(/got .*/g)!;
  assert.deepEqual(
    said,
    ["got 0", "got 1", "got 2", "got 3"].map((line, index) => line.replace(/\d/, `"${index}"`)),
  );
});

test("what waits to be run again does not keep its sandbox awake, and is run when that wakes", async () => {
  await start("work", {
    command: "echo run >> /tmp/ran; exit 1",
    name: "lazy",
    restartOnFailure: true,
    maxRestarts: -1,
  });
  await eventually(async () => assert.equal((await platform.call("GET", "/v0/sandboxes/work")).state, "STANDBY"));
  const { restartCount } = await get("work", "lazy");
  await eventually(async () => {
    assert.ok(Number((await get("work", "lazy")).restartCount) > Number(restartCount));
  });
  await platform.call("DELETE", at("work", "/process/lazy"));
  const found = await ended("work", "lazy");
  const { content } = await platform.call("GET", at("work", `/filesystem/${encodeURIComponent("/tmp/ran")}`));
  const ran = String(content).trim().split("\n").length;
  assert.ok(ran === found.restartCount || ran === Number(found.restartCount) + 1, `${ran} of ${found.restartCount}`);
});
