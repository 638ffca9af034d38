// The disk of the host's own data is full: requests that need room are refused with the reason, nothing acknowledged is lost, and room mends it.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { findLeftovers } from "../drivers/leftovers.ts";
import { eventually } from "../eventually.ts";
import { form } from "../sandbox-api/form.ts";
import { mountSmallDisk, type SmallDisk } from "../small-disk.ts";
import { answerOf, SandboxUnderAttack, textOf } from "./sandbox-under-attack.ts";

let disk: SmallDisk;
let platform: SpawnedPlatform;
let sandbox: SandboxUnderAttack;

before(async () => {
  disk = mountSmallDisk(48);
  const { TMPDIR } = process.env;
  // Where a platform for tests keeps its data.
  process.env.TMPDIR = disk.path;
  try {
    platform = await spawnPlatform({
      CATNAP_IDLE_TIMEOUT: "10m",
      CATNAP_WARM_INSTANCES: "0",
      // It rightly tells of the full disk again and again.
      CATNAP_LOG_LEVEL: "fatal",
    });
  } finally {
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
  }
  sandbox = await SandboxUnderAttack.create(platform, "kept");
});
after(async () => {
  disk?.free();
  await platform?.[Symbol.asyncDispose]();
  disk?.[Symbol.dispose]();
});

type Answer = { status: number; json: Record<string, unknown> };

async function ask(method: string, path: string, body?: Buffer | object, headers: object = {}): Promise<Answer> {
  const isForm = Buffer.isBuffer(body);
  const opened = sandbox.open(method, path, {
    headers: { ...(body !== undefined && !isForm && { "content-type": "application/json" }), ...headers },
  });
  opened.end(body === undefined || isForm ? body : JSON.stringify(body));
  const answer = await answerOf(opened);
  return { status: answer.statusCode!, json: JSON.parse(await textOf(answer)) as Record<string, unknown> };
}

const part = (uploadId: string, number: number, bytes: Buffer): Promise<Answer> => {
  const { headers, body } = form([["file", bytes, "part"]]);
  return ask("PUT", `/filesystem-multipart/${uploadId}/part?partNumber=${number}`, body, headers);
};

/** Every line the counting process has written, each following the one before. */
async function countedLines(): Promise<number> {
  const lines = ((await sandbox.call("GET", "/process/counter/logs")).stdout as string).split("\n").slice(0, -1);
  for (const [index, line] of lines.entries()) assert.equal(line, `line ${index}`);
  return lines.length;
}

function assertNoRoom({ status, json }: Answer, expected: number, words: RegExp): void {
  assert.equal(status, expected, JSON.stringify(json));
  assert.match(json.error as string, words);
}

const keyed = { command: "echo ran >> /dev/shm/keyed; echo once", waitForCompletion: true };
const key = { "idempotency-key": "before-it-was-full" };
const content = "old".repeat(2_000);
const piece = randomBytes(200_000);
let uploadId = "";
let countedBefore = 0;

test("a full disk of the host refuses what needs room with the reason; the rest goes on", {
  timeout: 400_000,
}, async () => {
  const count =
    "i=0; until [ -e /dev/shm/over ]; do echo line $i; i=$((i+1)); [ $((i % 100)) = 0 ] && sleep 0.02; done";
  await sandbox.call("POST", "/process", { name: "counter", command: count });
  await sandbox.call("POST", "/process", { name: "victim", command: "exec sleep 1000" });
  await sandbox.call("PUT", "/filesystem/tmp%2Fkept", { content });
  assert.equal((await ask("POST", "/process", keyed, key)).json.stdout, "once\n");
  uploadId = (await sandbox.call("POST", "/filesystem-multipart/initiate/tmp%2Ftarget")).uploadId as string;
  assert.equal((await part(uploadId, 1, piece)).status, 200);
  await eventually(async () => assert.ok((await countedLines()) > 500));

  // Again and again: processes that end meanwhile, or the database, may have given some room back.
  const filling = setInterval(() => disk.fill(), 20);
  try {
    disk.fill();
    countedBefore = await countedLines();
    await eventually(async () => {
      disk.fill();
      assertNoRoom(await ask("POST", "/process", { command: "echo no" }), 503, /no room to record the process/);
    });
    assertNoRoom(await ask("PUT", "/filesystem/tmp%2Fkept", { content: "new".repeat(50_000) }), 422, /no space left/);
    assert.equal((await sandbox.call("GET", "/filesystem/tmp%2Fkept")).content, content);
    await eventually(async () => {
      disk.fill();
      const initiated = await ask("POST", "/filesystem-multipart/initiate/tmp%2Fother");
      assertNoRoom(initiated, 503, /no room to record the upload/);
    });
    assertNoRoom(await part(uploadId, 2, piece), 422, /no space left/);
    const created = { metadata: { name: "refused" }, spec: { runtime: { memory: 512 } } };
    await assert.rejects(platform.call("POST", "/v0/sandboxes", created), /answered 503: .*(full|no room)/);
    // What needs no room: looking, what runs, and making an end.
    assert.equal((await ask("POST", "/process", keyed, key)).json.stdout, "once\n");
    assert.equal((await sandbox.call("GET", "/process/counter")).status, "running");
    await sandbox.call("DELETE", "/process/victim/kill");
    assert.equal((await sandbox.status()).status, "DEPLOYED");
    await eventually(() => assert.ok(!sandbox.processes().includes("sleep"), String(sandbox.processes())));
  } finally {
    clearInterval(filling);
  }
});

test("a daemon that dies on a full disk has lost nothing when there is room again", { timeout: 400_000 }, async () => {
  await platform.kill();
  disk.free();
  await platform.start();
  assert.ok((await countedLines()) >= countedBefore);
  await eventually(async () => assert.ok((await countedLines()) > countedBefore + 500));
  const repeated = await ask("POST", "/process", keyed, key);
  assert.deepEqual([repeated.json.stdout, repeated.json.exitCode], ["once\n", 0]);
  assert.equal((await sandbox.run("cat /dev/shm/keyed")).stdout, "ran\n");
  assert.equal((await sandbox.call("GET", "/filesystem/tmp%2Fkept")).content, content);
  await eventually(async () => assert.equal((await sandbox.call("GET", "/process/victim")).status, "killed"));
  const { etag } = (await part(uploadId, 2, piece)).json;
  const first = createHash("md5").update(piece).digest("hex");
  const parts = [
    { partNumber: 1, etag: first },
    { partNumber: 2, etag },
  ];
  await sandbox.call("POST", `/filesystem-multipart/${uploadId}/complete`, { parts });
  const digest = (await sandbox.run("md5sum < /tmp/target")).stdout as string;
  const whole = createHash("md5").update(Buffer.concat([piece, piece]));
  assert.equal(digest.split(" ")[0], whole.digest("hex"));
  await sandbox.run("touch /dev/shm/over");
  await eventually(async () => assert.equal((await sandbox.call("GET", "/process/counter")).status, "completed"));
  await countedLines();
});

test("what was refused has left nothing, and sandboxes are made again", { timeout: 400_000 }, async () => {
  await SandboxUnderAttack.create(platform, "refused");
  const listed = (await platform.call("GET", "/v0/sandboxes")) as unknown as { metadata: { name: string } }[];
  assert.deepEqual(listed.map(({ metadata }) => metadata.name).sort(), ["kept", "refused"]);
  const list = (): string[] => readdirSync(join(platform.dataDir, "instances"));
  await eventually(() => assert.equal(list().length, 2));
  const instances = list();
  const cgroupParent = platform.env.CATNAP_CGROUP_PARENT!;
  assert.deepEqual(await findLeftovers({ dataDir: platform.dataDir, cgroupParent, expected: instances }), []);
  for (const name of readdirSync(join(platform.dataDir, "instances"), { recursive: true }) as string[]) {
    assert.doesNotMatch(name, /state\/.*\.new$/);
  }
});
