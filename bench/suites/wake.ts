// Waking: the first byte of a request to a frozen sandbox against the same request to a running one, with many asleep around it.
import { setTimeout as delay } from "node:timers/promises";
import { spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { Connection, expectOk } from "../http-client.ts";
import type { Result } from "../report.ts";
import { summarize } from "../stats.ts";
import { availableBytes, createMany, pathOf, waitForDeletion, waitForStandby } from "./fleet.ts";

const sandboxes = 200;

/** Also measures the memory a sleeping sandbox adds, because it needs the same fleet. */
export async function benchWakeAndMemory(): Promise<Result[]> {
  await using platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "1s", CATNAP_WARM_INSTANCES: "0" });
  const availableBefore = await availableBytes();
  const rssBefore = await platform.daemonRssBytes();
  const fleet = await createMany(platform, sandboxes);
  await waitForStandby(platform, sandboxes);
  await delay(2_000);
  const availableWith = await availableBytes();
  const daemonAdded = (await platform.daemonRssBytes()) - rssBefore;

  using connection = await Connection.open(platform.url, { authorization: `Bearer ${platform.apiKey}` });
  const asleep: number[] = [];
  const awake: number[] = [];
  const phases: number[] = [];
  for (const sandbox of fleet) {
    // A stat inside the sandbox: the cheapest request that its own kernel view has to answer.
    const path = `${pathOf(sandbox)}/filesystem/tree/etc/apt`;
    const first = expectOk(await connection.request("GET", path));
    asleep.push(first.firstByteMs);
    phases.push(Number(/wake;dur=([\d.]+)/.exec(first.headers)?.[1]));
    awake.push(expectOk(await connection.request("GET", path)).firstByteMs);
  }
  const sleeping = summarize(asleep);
  const running = summarize(awake);
  const adds = sleeping.median - running.median;
  for (const { metadata } of fleet) await platform.call("DELETE", `/v0/sandboxes/${metadata.name}`);
  await waitForDeletion(platform);
  const perSandboxMib = (bytes: number): number => bytes / sandboxes / 1024 / 1024;
  const taken = perSandboxMib(availableBefore - availableWith);
  const givenBack = perSandboxMib((await availableBytes()) - availableWith);
  // Whatever else the machine does between two looks goes into one of them, so the worse counts.
  const perSandbox = Math.max(taken, givenBack);
  return [
    {
      name: `wake to first byte, ${sandboxes} asleep`,
      unit: "ms",
      measured: { median: sleeping.median, p99: sleeping.p99, thaw_median: summarize(phases).median },
      baseline: { median: running.median, p99: running.p99 },
      goal: "adds at most 1 ms to the median",
      value: adds,
      met: adds <= 1,
      note: "The thaw itself is one write to a cgroup file; the rest of what it adds is the scheduler and cold caches of the woken init.",
    },
    {
      name: `wake to first byte, ${sandboxes} asleep, tail`,
      unit: "ms",
      measured: { p99: sleeping.p99, max: sleeping.max },
      baseline: { p99: running.p99, max: running.max },
      goal: "p99 at most 15 ms",
      value: sleeping.p99,
      met: sleeping.p99 <= 15,
    },
    {
      name: `memory per sleeping sandbox, over ${sandboxes}`,
      unit: "MiB",
      measured: { taken, given_back: givenBack, daemon_share: perSandboxMib(daemonAdded) },
      goal: "at most 3 MiB with init, one waiting process and the daemon's share",
      value: perSandbox,
      met: perSandbox <= 3,
      note: "The machine's MemAvailable before, with and after them, caches dropped each time; kernel objects and the daemon included.",
    },
  ];
}
