// Hundreds of clients that follow runs of one sandbox and stop reading: everybody else of that sandbox is served, the runs wait, and no byte is lost to them.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";
import { answerOf, assertNothingLeft, footprint, latencies, SandboxUnderAttack } from "./sandbox-under-attack.ts";

const stalled = 150;
/** Of each stream; numbers, so that a piece that is missing, doubled or in another place is noticed. */
const lastNumber = 800_000;
const command = `seq ${lastNumber} | tee /dev/stderr`;
const mib = 1024 * 1024;

test(`${stalled} clients that stop reading what they follow hold up their own runs alone, and read every byte later`, {
  timeout: 900_000,
}, async (t) => {
  await using platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "10m", CATNAP_WARM_INSTANCES: "0" });
  const sandbox = await SandboxUnderAttack.create(platform, "stalled", 2048);
  await sandbox.run("true");
  const before = footprint(sandbox);
  const rssBefore = await platform.daemonRssBytes();
  const headers = { accept: "text/event-stream", "content-type": "application/json" };
  const followers = Array.from({ length: stalled }, (_, index) => {
    const opened = sandbox.open("POST", "/process", { headers });
    opened.end(JSON.stringify({ command, name: `run-${index}` }));
    return opened;
  });
  const answers = await Promise.all(followers.map(answerOf));
  // All of them stand still: nothing inside writes any more.
  const written = "cat /proc/[0-9]*/io | awk '/^wchar/ { sum += $2 } END { print sum }'";
  let last = 0;
  await eventually(
    async () => {
      const now = Number((await sandbox.run(written)).stdout);
      const moved = Math.abs(now - last);
      last = now;
      assert.ok(moved < mib, `${moved} bytes were written meanwhile`);
    },
    { intervalMs: 1_000 },
  );
  t.diagnostic(`exec beside them: median ${(await latencies(20, () => sandbox.run("true"))).toFixed(1)} ms`);
  t.diagnostic(`the daemon grew by ${(((await platform.daemonRssBytes()) - rssBefore) / mib).toFixed(0)} MiB`);
  const listed = (await sandbox.call("GET", "/process")) as unknown as { name: string; status: string }[];
  const running = listed.filter(({ name, status }) => name.startsWith("run-") && status === "running");
  assert.equal(running.length, stalled, "they stand still in the middle");

  const expected = expectedDigests();
  for (const read of await Promise.all(answers.map(readRun))) assert.deepEqual(read, expected);
  await eventually(() => assertNothingLeft(sandbox, before));
});

type Read = { stdout: string; stderr: string; result: unknown };

function expectedDigests(): Read {
  const hash = createHash("md5");
  for (let number = 1; number <= lastNumber; number++) hash.update(`${number}\n`);
  const digest = hash.digest("hex");
  return { stdout: digest, stderr: digest, result: { status: "completed", exitCode: 0 } };
}

async function readRun(answer: AsyncIterable<Buffer>): Promise<Read> {
  const hashes = { stdout: createHash("md5"), stderr: createHash("md5") };
  let result: unknown;
  let rest = "";
  for await (const piece of answer) {
    const lines = (rest + piece.toString("latin1")).split("\n");
    rest = lines.pop()!;
    for (const text of lines) {
      const event = JSON.parse(text) as { type: string; data: string; missingBytes?: number };
      assert.equal(event.missingBytes, undefined, "output is told as missing");
      if (event.type === "stdout" || event.type === "stderr") hashes[event.type].update(event.data);
      if (event.type !== "result") continue;
      const { status, exitCode } = JSON.parse(event.data) as { status: string; exitCode: number };
      result = { status, exitCode };
    }
  }
  return { stdout: hashes.stdout.digest("hex"), stderr: hashes.stderr.digest("hex"), result };
}
