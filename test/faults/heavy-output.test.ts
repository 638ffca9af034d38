// Output of a gigabyte: told to the byte or with the exact count of what is missing, in bounded memory, and beside it others are served.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";
import { answerOf, latencies, SandboxUnderAttack } from "./sandbox-under-attack.ts";

const outputBytes = 1024 * 1024 * 1024;
const line = `${"x".repeat(63)}\n`;
const command = `yes ${line.trim()} | head -c ${outputBytes}`;
const mib = 1024 * 1024;

let platform: SpawnedPlatform;
let sandbox: SandboxUnderAttack;
let neighbour: SandboxUnderAttack;

before(async () => {
  platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "10m", CATNAP_WARM_INSTANCES: "0" });
  sandbox = await SandboxUnderAttack.create(platform, "loud", 2048);
  neighbour = await SandboxUnderAttack.create(platform, "neighbour", 2048);
});
after(() => platform[Symbol.asyncDispose]());

/** Looks at the daemon's memory until aborted; resolves with the most it had. */
async function highestRss(signal: AbortSignal): Promise<number> {
  let highest = 0;
  for (let look = 0; look < 10_000 && !signal.aborted; look++) {
    highest = Math.max(highest, await platform.daemonRssBytes());
    await delay(100);
  }
  return highest;
}

const ask = (): Promise<unknown> => neighbour.run("true");

/** Counts the events of a streamed run; `pause` is called with the bytes so far before each next piece is read. */
async function readRun(answer: AsyncIterable<Buffer>, pause: (bytes: number) => Promise<void>) {
  let rest = "";
  let received = 0;
  let missing = 0;
  let result: { status: string; exitCode: number } | undefined;
  for await (const piece of answer) {
    const lines = (rest + piece.toString("latin1")).split("\n");
    rest = lines.pop()!;
    for (const text of lines) {
      const event = JSON.parse(text) as { type: string; data: string; missingBytes?: number };
      if (event.type === "result") result = JSON.parse(event.data);
      else if (event.missingBytes !== undefined) missing += event.missingBytes;
      else received += event.data.length;
    }
    await pause(received);
  }
  return { received, missing, result };
}

test("a slow reader of a gigabyte holds the process up, not the daemon or its neighbours", {
  timeout: 900_000,
}, async (t) => {
  const quiet = await latencies(60, ask);
  const before = await platform.daemonRssBytes();
  const stop = new AbortController();
  const highest = highestRss(stop.signal);
  using _ended = { [Symbol.dispose]: () => stop.abort() };
  const headers = { accept: "text/event-stream", "content-type": "application/json" };
  const opened = sandbox.open("POST", "/process", { headers });
  opened.end(JSON.stringify({ name: "slow", command }));
  const answer = await answerOf(opened);

  // Nobody reads at all at first: the process stands still on a full pipe.
  await once(answer, "readable");
  const written = async (): Promise<number> => {
    const journal = (await sandbox.run(`cat /proc/$(pgrep -x head)/io | awk '/^wchar/ {print $2}'`)).stdout;
    return Number(journal);
  };
  let last = -1;
  await eventually(async () => {
    const now = await written();
    const stands = now === last;
    last = now;
    assert.ok(stands && now > 0);
  });
  assert.ok(last < 32 * mib, `${last} bytes were written while nobody read`);
  const busy = await latencies(60, ask);

  // Then a little at a time, and in the end as fast as it comes.
  const counted = readRun(answer, async (bytes) => {
    if (bytes < 16 * mib) await delay(5);
  });
  const flowing = await latencies(60, ask);
  const { received, missing, result } = await counted;
  stop.abort();
  assert.deepEqual({ received, missing }, { received: outputBytes, missing: 0 });
  assert.equal(result?.status, "completed");
  const grown = (await highest) - before;
  t.diagnostic(`daemon grew by at most ${(grown / mib).toFixed(0)} MiB`);
  t.diagnostic(
    `neighbour's exec: median ${quiet.toFixed(1)} ms quiet, ${busy.toFixed(1)} while blocked, ${flowing.toFixed(1)} while flowing`,
  );
  assert.ok(grown < 192 * mib, `the daemon grew by ${grown} bytes`);
});

test("a gigabyte read through the log stream is all accounted for: come or told as missing", {
  timeout: 900_000,
}, async (t) => {
  await sandbox.call("POST", "/process", { name: "logged", command });
  const opened = sandbox.open("GET", "/process/logged/logs/stream");
  opened.end();
  const answer = await answerOf(opened);
  const { shown, missing } = await readLog(answer);
  assert.equal(shown + missing, outputBytes);
  t.diagnostic(`${shown} bytes came, ${missing} were told as missing`);

  // Afterwards what the log keeps, and the exact rest.
  const again = sandbox.open("GET", "/process/logged/logs/stream");
  again.end();
  const replayed = await readLog(await answerOf(again));
  assert.equal(replayed.shown + replayed.missing, outputBytes);
  assert.ok(replayed.shown > 24 * mib && replayed.shown <= 32 * mib, `${replayed.shown} bytes are kept`);
});

/** The output without prefixes, markers and the newlines before markers; every line of it is checked. */
async function readLog(answer: AsyncIterable<Buffer>): Promise<{ shown: number; missing: number }> {
  const marker = /^\[\.\.\. (\d+) earlier bytes of this output are not in the log/;
  let rest = "";
  let shown = 0;
  let missing = 0;
  for await (const piece of answer) {
    const lines = (rest + piece.toString("latin1")).split("\n");
    rest = lines.pop()!;
    for (const text of lines) {
      if (text === "[keepalive]") continue;
      assert.ok(text.startsWith("stdout:"), text.slice(0, 100));
      const found = marker.exec(text.slice(7));
      if (found !== null) missing += Number(found[1]);
      else shown += text.length - 7 + 1;
    }
  }
  assert.equal(rest, "");
  return { shown, missing };
}
