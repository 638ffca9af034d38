// SIGKILL of the daemon at random moments under load: nothing acknowledged is lost, nothing half-made is left on the machine.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { readRecords } from "../../src/host/instances/record.ts";
import { findLeftovers } from "../drivers/leftovers.ts";
import { eventually } from "../eventually.ts";
import { type Acknowledged, applyLoad, type Known, pathOf } from "./kill-load.ts";

/** How often the daemon is killed; every round looks at the whole machine afterwards. */
const rounds = Number(process.env.CATNAP_KILL_ROUNDS ?? 200);
/** A machine on which that would take longer than a test file may has fewer, but never less than these. */
const enoughMs = 10 * 60_000;
const roundsMin = 20;
const longestLifeMs = 400;
/** From time to time the daemon is killed while everything sleeps. */
const napEvery = 7;
/** From time to time sandboxes are replaced, so that creating and deleting meet the kill as often as running ones do. */
const renewEvery = 10;

test(`${rounds} kills under load lose nothing and leave nothing`, { timeout: 60 * 60_000 }, async (t) => {
  await using platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "1s", CATNAP_WARM_INSTANCES: "1" });
  const known: Acknowledged = { alive: new Map(), deleted: new Set() };
  let tickersChecked = 0;
  let round = 0;
  const begunMs = performance.now();
  const isLate = (): boolean => performance.now() - begunMs > enoughMs && process.env.CATNAP_KILL_ROUNDS === undefined;
  while (round < rounds && !(round >= roundsMin && isLate())) {
    round++;
    if (round % napEvery === 0 && hasTicker(known)) await waitForStandby(platform, known);
    else await liveShortly(platform, known);
    await platform.kill();
    await platform.start();
    tickersChecked += await checkRound(platform, known).catch((error: unknown) => {
      throw new Error(`after kill ${round}: ${error instanceof Error ? error.message : error}`, { cause: error });
    });
    if (round % renewEvery === 0) await renew(platform, known);
  }
  t.diagnostic(`${round} kills`);
  assert.ok(tickersChecked >= round, `${tickersChecked} running processes were checked`);
});

async function liveShortly(platform: SpawnedPlatform, known: Acknowledged): Promise<void> {
  const stop = new AbortController();
  const load = applyLoad(platform, known, stop.signal);
  // Without a lasting sandbox there is little to lose; on a slow machine making one takes longer than most lives.
  await eventually(() => assert.ok(hasTicker(known)));
  await delay(Math.random() * longestLifeMs);
  await platform.kill();
  stop.abort();
  await load;
}

function hasTicker({ alive }: Acknowledged): boolean {
  return [...alive.values()].some(({ ticker }) => ticker !== undefined);
}

async function waitForStandby(platform: SpawnedPlatform, known: Acknowledged): Promise<void> {
  await eventually(async () => {
    for (const name of known.alive.keys()) {
      assert.equal((await platform.call("GET", `/v0/sandboxes/${name}`)).state, "STANDBY");
    }
  });
}

/** Resolves with the number of running processes it has checked. */
async function checkRound(platform: SpawnedPlatform, known: Acknowledged): Promise<number> {
  let tickers = 0;
  for (const [name, sandbox] of known.alive) {
    const found = await platform.call("GET", `/v0/sandboxes/${name}`);
    assert.equal(found.status, "DEPLOYED", `${name} was acknowledged`);
    assert.deepEqual(found.errors, [], `${name} has no infrastructure errors`);
    tickers += await checkTicker(platform, sandbox);
    for (const [path, content] of sandbox.files) {
      const file = await platform.call("GET", pathOf(sandbox, `/filesystem/${encodeURIComponent(path)}`));
      assert.equal(file.content, content, `${path} of ${name}`);
    }
  }
  const listed = await listSandboxes(platform);
  for (const { metadata, status } of listed) {
    assert.ok(!known.deleted.has(metadata.name) || status !== "DEPLOYED", `${metadata.name} was deleted and came back`);
  }
  await eventually(() => checkMachine(platform));
  return tickers;
}

type Listed = { metadata: { name: string }; status: string };

async function listSandboxes(platform: SpawnedPlatform): Promise<Listed[]> {
  return (await platform.call("GET", "/v0/sandboxes?limit=200")) as unknown as Listed[];
}

/** Everything on the machine belongs to a warm instance or to a sandbox that the control plane knows, and the other way round. */
async function checkMachine(platform: SpawnedPlatform): Promise<void> {
  const records = readRecords(join(platform.dataDir, "instances"));
  const kept = records.filter(({ record }) => typeof record !== "string" && /^(claimed|warm)$/.test(record.phase));
  const leftovers = await findLeftovers({
    dataDir: platform.dataDir,
    cgroupParent: platform.env.CATNAP_CGROUP_PARENT!,
    expected: kept.map(({ id }) => id),
  });
  assert.deepEqual(leftovers, []);
  const claimed = kept.flatMap(({ record }) => (typeof record === "string" ? [] : (record.claim?.sandboxName ?? [])));
  const deployed = (await listSandboxes(platform)).filter(({ status }) => status === "DEPLOYED");
  assert.deepEqual(claimed.sort(), deployed.map(({ metadata }) => metadata.name).sort());
}

/** The same process runs on, and its log begins with every byte that was read before and counts without gap or repetition. */
async function checkTicker(platform: SpawnedPlatform, { ticker, ...sandbox }: Known): Promise<number> {
  if (ticker === undefined) return 0;
  const running = await platform.call("GET", pathOf({ ticker, ...sandbox }, "/process/ticker"));
  assert.equal(running.status, "running");
  assert.equal(running.pid, ticker.pid);
  const logs = (await platform.call("GET", pathOf({ ticker, ...sandbox }, "/process/ticker/logs"))).stdout as string;
  assert.ok(logs.startsWith(ticker.logs), "the log begins with what was read before the kill");
  const lines = logs.split("\n").slice(0, -1);
  for (const [index, line] of lines.entries())
    assert.equal(Number(line), index + 1, "every line follows the one before");
  return 1;
}

async function renew(platform: SpawnedPlatform, known: Acknowledged): Promise<void> {
  for (const name of [...known.alive.keys()]) {
    known.alive.delete(name);
    await platform.call("DELETE", `/v0/sandboxes/${name}`);
    known.deleted.add(name);
  }
}
