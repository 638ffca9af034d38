// Stopping and starting the platform with real instances in every state: nobody's work is lost, and what should run runs again.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";

let platform: SpawnedPlatform;

before(async () => {
  platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "200ms", CATNAP_WARM_INSTANCES: "1" });
  await Promise.all(["kept", "plain", "busy"].map((name) => create(name)));
});
after(() => platform[Symbol.asyncDispose]());

const at = (name: string, path: string): string => `/run/main/sandboxes/${name}${path}`;
const counting = "n=0; while :; do n=$((n+1)); echo $n; sleep 0.02; done";

async function create(name: string): Promise<void> {
  await platform.call("POST", "/v0/sandboxes", { metadata: { name }, spec: { runtime: { memory: 256 } } });
}

async function counted(name: string): Promise<number[]> {
  const { stdout } = await platform.call("GET", at(name, "/process/count/logs"));
  return String(stdout).split("\n").slice(0, -1).map(Number);
}

async function stateOf(name: string): Promise<unknown> {
  const { state, errors } = await platform.call("GET", `/v0/sandboxes/${name}`);
  assert.deepEqual(errors, []);
  return state;
}

for (const how of ["stop", "kill"] as const) {
  test(`after a ${how} and a start everything goes on where it was`, async () => {
    const start = { name: "count", command: counting };
    const { pid: keptPid } = await platform.call("POST", at("kept", "/process"), {
      ...start,
      keepAlive: true,
      timeout: 0,
    });
    const { pid: plainPid } = await platform.call("POST", at("plain", "/process"), start);
    const { pid: busyPid } = await platform.call("POST", at("busy", "/process"), start);
    await eventually(async () => assert.equal(await stateOf("plain"), "STANDBY"));
    const seen = { kept: await counted("kept"), busy: await counted("busy") };
    const waited = `waited-${how}`;
    const call = platform.call("POST", at("busy", "/process"), {
      name: waited,
      command: "sleep 1000",
      waitForCompletion: true,
    });
    const following = platform.call("GET", at("busy", "/process/count/logs/stream"));
    const cutOff = Promise.allSettled([call, following]);
    await eventually(() => platform.call("GET", at("busy", `/process/${waited}`)));
    await platform[how]();
    for (const { status } of await cutOff) assert.equal(status, "rejected");
    await platform.start();
    // Nobody has asked for it: its keepAlive process alone makes it run on.
    await eventually(async () => assert.equal(await stateOf("kept"), "RUNNING"));
    const before = (await counted("kept")).length;
    await eventually(async () => assert.ok((await counted("kept")).length > before));
    assert.equal(await stateOf("plain"), "STANDBY");
    for (const [name, pid, had] of [
      ["kept", keptPid, seen.kept],
      ["plain", plainPid, []],
      ["busy", busyPid, seen.busy],
    ] as const) {
      const found = await platform.call("GET", at(name, "/process/count"));
      assert.deepEqual([found.status, found.pid], ["running", pid]);
      const lines = await counted(name);
      assert.ok(lines.length >= had.length);
      assert.deepEqual(
        lines,
        lines.map((_, index) => index + 1),
        "no line is lost or told twice",
      );
      await platform.call("DELETE", at(name, "/process/count/kill"));
    }
    await platform.call("DELETE", at("busy", `/process/${waited}/kill`));
    for (const name of ["kept", "plain", "busy"]) {
      await eventually(async () => assert.equal(await stateOf(name), "STANDBY"));
    }
  });
}

test("a stop in the middle of creating and deleting leaves each sandbox whole or gone", async () => {
  const names = Array.from({ length: 12 }, (_, index) => `half-${index}`);
  await Promise.all(names.slice(0, 6).map((name) => create(name)));
  const acts = [
    ...names.slice(0, 6).map((name) => platform.call("DELETE", `/v0/sandboxes/${name}`)),
    ...names.slice(6).map((name) => create(name)),
  ];
  const ended = Promise.allSettled(acts);
  await platform.stop();
  const outcomes = await ended;
  await platform.start();
  const listed = (await platform.call("GET", "/v0/sandboxes?limit=200")) as unknown as {
    metadata: { name: string };
    status: string;
  }[];
  for (const [index, name] of names.entries()) {
    const found = listed.find(({ metadata }) => metadata.name === name);
    const isAcknowledged = outcomes[index]!.status === "fulfilled";
    if (index < 6 && isAcknowledged) assert.notEqual(found?.status, "DEPLOYED", `${name} was deleted`);
    if (index >= 6 && isAcknowledged) assert.equal(found?.status, "DEPLOYED", `${name} was created`);
    if (found?.status !== "DEPLOYED") continue;
    assert.equal((await platform.call("GET", at(name, "/health"))).status, "ok");
    await platform.call("DELETE", `/v0/sandboxes/${name}`);
  }
  await create("half-0");
  await platform.call("DELETE", "/v0/sandboxes/half-0");
});
