// Clients that drop a stream at any moment: nothing of it is left on the machine or inside, and the process goes on.
import assert from "node:assert/strict";
import { pipeline } from "node:stream/promises";
import { after, before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";
import { answerOf, assertNothingLeft, footprint, SandboxUnderAttack, seededRandom } from "./sandbox-under-attack.ts";

const drops = 50;
const atOnce = 5;
const fileBytes = 16 * 1024 * 1024;
const boundary = "dropped";

let platform: SpawnedPlatform;
let sandbox: SandboxUnderAttack;
const seed = Number(process.env.CATNAP_FAULT_SEED ?? Date.now() % 1_000_000);

before(async () => {
  platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "10m", CATNAP_WARM_INSTANCES: "0" });
  sandbox = await SandboxUnderAttack.create(platform, "dropped");
  await sandbox.run(`mkdir /tmp/watched /tmp/up /tmp/done; head -c ${fileBytes} /dev/zero > /tmp/file`);
});
after(() => platform[Symbol.asyncDispose]());

/** Reads until so many bytes have come or the answer is over, then breaks the connection. */
async function readAndDrop(opened: ReturnType<SandboxUnderAttack["open"]>, bytes: number): Promise<void> {
  try {
    const answer = await answerOf(opened);
    assert.equal(answer.statusCode, 200);
    let received = 0;
    for await (const chunk of answer) {
      received += (chunk as Buffer).length;
      if (received >= bytes) break;
    }
  } finally {
    opened.destroy();
  }
}

const counting = "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done";

/** Each drops one stream; `share` from 0 to 1 says how far in. */
const kinds: Record<string, (share: number, index: number) => Promise<void>> = {
  "a streamed run": async (share, index) => {
    const headers = { accept: "text/event-stream", "content-type": "application/json" };
    const opened = sandbox.open("POST", "/process", { headers });
    opened.end(JSON.stringify({ name: `run-${index}`, command: `${counting}; echo $i > /tmp/done/${index}` }));
    await readAndDrop(opened, share * 100_000);
  },
  "a followed log": async (share) => {
    const opened = sandbox.open("GET", "/process/talker/logs/stream");
    opened.end();
    await readAndDrop(opened, share * 400_000);
  },
  "a download": async (share) => {
    const opened = sandbox.open("GET", "/filesystem/tmp%2Ffile", { headers: { accept: "application/octet-stream" } });
    opened.end();
    await readAndDrop(opened, share * fileBytes);
  },
  "an upload": async (share, index) => {
    const headers = {
      "content-type": `multipart/form-data; boundary=${boundary}`,
      "content-length": String(fileBytes + 200),
    };
    const opened = sandbox.open("PUT", `/filesystem/tmp%2Fup%2F${index}`, { headers });
    opened.write(`--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\n`);
    const piece = Buffer.alloc(64 * 1024, "x");
    const pieces = Array.from({ length: Math.ceil((share * fileBytes) / piece.length) }, () => piece);
    await pipeline(pieces, opened, { end: false });
    opened.destroy();
  },
  "a watch": async (share) => {
    const opened = sandbox.open("GET", "/watch/filesystem/tmp%2Fwatched");
    opened.end();
    await readAndDrop(opened, share * 20_000);
  },
  "a wait for the end": async (share, index) => {
    const opened = sandbox.open("POST", "/process", { headers: { "content-type": "application/json" } });
    const command = `sleep 0.2; echo 3000 > /tmp/done/waited-${index}`;
    const name = `waited-${index}`;
    opened.end(JSON.stringify({ name, command, waitForCompletion: true }));
    // A client that leaves before its request has arrived begins nothing.
    await eventually(() => sandbox.call("GET", `/process/${name}`), { intervalMs: 5 });
    await delay(share * 250);
    opened.destroy();
  },
};

for (const [number, [what, drop]] of Object.entries(kinds).entries()) {
  test(`${drops} clients that drop ${what} leave nothing behind (seed ${seed})`, { timeout: 400_000 }, async () => {
    const random = seededRandom(seed + number);
    const talker = "while [ ! -e /tmp/stop ]; do echo talk talk talk; echo x > /tmp/watched/file; done; rm /tmp/stop";
    await sandbox.call("POST", "/process", { name: "talker", command: talker });
    await drop(0, 1_000 + number).catch(() => undefined);
    const before = await eventually(() => settled());
    for (let index = 0; index < drops; index += atOnce) {
      const dropping = Array.from({ length: atOnce }, (_, at) => drop(random(), index + at));
      await Promise.all(dropping);
    }
    await eventually(() => assertNothingLeft(sandbox, before));
    // Every place for file operations is free again: none of more requests than there are places has to wait for long.
    await Promise.all(Array.from({ length: 150 }, () => sandbox.call("GET", "/filesystem/tree/tmp/up")));
    assert.equal((await sandbox.call("GET", "/process/talker")).status, "running");
    await sandbox.call("PUT", "/filesystem/tmp%2Fstop", { content: "" });
    await eventually(async () => assert.equal((await sandbox.call("GET", "/process/talker")).status, "completed"));
  });
}

/** The footprint once what the first, uncounted drop left has gone. */
async function settled(): Promise<ReturnType<typeof footprint>> {
  const found = footprint(sandbox);
  await delay(300);
  assert.deepEqual(footprint(sandbox), found);
  return found;
}

test("every process whose client left ran to its end", async () => {
  await eventually(async () => {
    const done = await sandbox.run("cat /tmp/done/* | grep -c '^3000$'");
    assert.equal(Number(done.stdout), 2 * (drops + 1));
  });
  const listed = (await sandbox.call("GET", "/process")) as unknown as { name: string; status: string }[];
  const unfinished = listed.filter(({ name, status }) => /^(run|waited)-/.test(name) && status !== "completed");
  assert.deepEqual(unfinished, []);
});

test("an upload that was dropped leaves neither its file nor a part of it", async () => {
  assert.equal((await sandbox.run("ls -A /tmp/up; ls -A /tmp | grep -v -x -E 'watched|up|done|file'")).stdout, "");
});
