// Replacing the settings of real sandboxes: what keeps the instance keeps its processes and files, what rebuilds it starts afresh, and
// nobody who uses the sandbox meanwhile is refused.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { readRecords } from "../../src/host/instances/record.ts";
import { eventually } from "../eventually.ts";

let platform: SpawnedPlatform;

before(async () => {
  platform = await spawnPlatform({ CATNAP_WARM_INSTANCES: "1" });
  await platform.warmed();
});
after(() => platform[Symbol.asyncDispose]());

type Json = Record<string, unknown>;
type Sandbox = { metadata: Json; spec: Json & { runtime: Json }; status: string; events: Json[] };

async function create(name: string, runtime: Json = {}): Promise<Sandbox> {
  const spec = { runtime: { memory: 256, ...runtime } };
  return (await platform.call("POST", "/v0/sandboxes", { metadata: { name }, spec })) as Sandbox;
}

async function put(name: string, body: Json): Promise<Sandbox> {
  return (await platform.call("PUT", `/v0/sandboxes/${name}`, body)) as Sandbox;
}

function use(name: string, method: string, path: string, body?: unknown): Promise<Json> {
  return platform.call(method, `/run/main/sandboxes/${name}${path}`, body);
}

async function run(name: string, command: string): Promise<unknown> {
  const { stdout } = await use(name, "POST", "/process", { command, waitForCompletion: true });
  return stdout;
}

/** Instances on the host that say they are this sandbox's. */
function instancesOf(name: string): string[] {
  const found = readRecords(join(platform.dataDir, "instances"));
  return found.flatMap(({ id, record }) =>
    typeof record !== "string" && record.phase === "claimed" && record.claim?.sandboxName === name ? [id] : [],
  );
}

test("labels change under a running process, an environment starts the sandbox afresh", async () => {
  const created = await create("changing", { envs: [{ name: "COLOUR", value: "red" }] });
  await run("changing", "echo kept > /root/file");
  await use("changing", "POST", "/process", { name: "long", command: "sleep 1000", keepAlive: true });
  const before = instancesOf("changing");
  assert.equal(before.length, 1);

  const labelled = await put("changing", { ...created, metadata: { ...created.metadata, labels: { team: "red" } } });
  assert.deepEqual(labelled.metadata.labels, { team: "red" });
  assert.deepEqual([labelled.status, labelled.events], ["DEPLOYED", created.events]);
  assert.deepEqual(instancesOf("changing"), before);
  assert.equal(await run("changing", "cat /root/file; printenv COLOUR"), "kept\nred\n");
  assert.equal((await use("changing", "GET", "/process/long")).status, "running");

  const envs = [{ name: "COLOUR", value: "blue" }];
  const rebuilt = await put("changing", {
    ...labelled,
    spec: { ...labelled.spec, runtime: { ...labelled.spec.runtime, envs } },
  });
  assert.equal(rebuilt.status, "DEPLOYED");
  assert.equal(rebuilt.events.length, labelled.events.length + 1);
  assert.equal(await run("changing", "cat /root/file 2>/dev/null; printenv COLOUR"), "blue\n");
  await assert.rejects(use("changing", "GET", "/process/long"), / answered 404/);
  await eventually(() => assert.equal(instancesOf("changing").length, 1));
  assert.notDeepEqual(instancesOf("changing"), before);
  await platform.call("DELETE", "/v0/sandboxes/changing");
});

test("more memory is there after the rebuild, and who asks meanwhile is answered", async () => {
  const created = await create("growing");
  let isDone = false;
  const answers: unknown[] = [];
  const asking = Array.from({ length: 3 }, async () => {
    while (!isDone) answers.push(await use("growing", "GET", "/filesystem/%2Fetc").then(({ path }) => path));
  });
  const rebuilt = await put("growing", {
    ...created,
    spec: { ...created.spec, runtime: { ...created.spec.runtime, memory: 512 } },
  });
  isDone = true;
  await Promise.all(asking);
  assert.equal(rebuilt.spec.runtime.memory, 512);
  assert.ok(answers.length > 0 && answers.every((path) => path === "/etc"));
  await eventually(() => assert.equal(instancesOf("growing").length, 1));
  const [id] = instancesOf("growing");
  const record = readRecords(join(platform.dataDir, "instances")).find((one) => one.id === id)?.record;
  assert.equal(typeof record === "object" && record.claim?.memoryMb, 512);
  await platform.call("DELETE", "/v0/sandboxes/growing");
});

test("an image that does not exist costs a running sandbox nothing", async () => {
  const created = await create("loyal");
  await run("loyal", "echo kept > /root/file");
  const image = "blaxel/does-not-exist:latest";
  const runtime = { ...created.spec.runtime, image };
  await assert.rejects(put("loyal", { ...created, spec: { ...created.spec, runtime } }), / answered 400/);
  assert.equal(await run("loyal", "cat /root/file"), "kept\n");
  assert.equal(instancesOf("loyal").length, 1);
  await platform.call("DELETE", "/v0/sandboxes/loyal");
});

test("a platform killed in the middle of a rebuild comes back with one of both instances, whole", async () => {
  await create("killed");
  for (let round = 1; round <= 4; round++) {
    await run("killed", `echo ${round} > /root/round`);
    const memory = 256 + round;
    const updating = put("killed", { metadata: {}, spec: { runtime: { memory } } }).then(
      () => true,
      () => false,
    );
    await delay(round * 12);
    await platform.kill();
    const acknowledged = await updating;
    await platform.start();
    const { spec, status } = (await platform.call("GET", "/v0/sandboxes/killed")) as Sandbox;
    assert.equal(status, "DEPLOYED");
    if (acknowledged) assert.equal(spec.runtime.memory, memory);
    const isNew = spec.runtime.memory === memory;
    assert.equal(await run("killed", "cat /root/round 2>/dev/null || true"), isNew ? "" : `${round}\n`);
    await eventually(() => assert.equal(instancesOf("killed").length, 1));
    const [id] = instancesOf("killed");
    const record = readRecords(join(platform.dataDir, "instances")).find((one) => one.id === id)?.record;
    assert.equal(typeof record === "object" && record.claim?.memoryMb, spec.runtime.memory);
  }
  await platform.call("DELETE", "/v0/sandboxes/killed");
});
