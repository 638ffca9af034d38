// Creating: from the request to the end of the first command, with an instance from the warm pool and without.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import type { Result } from "../report.ts";
import { sample, summarize } from "../stats.ts";
import { createSandbox, pathOf } from "./fleet.ts";

async function createAndRun(platform: SpawnedPlatform): Promise<void> {
  const sandbox = await createSandbox(platform);
  const done = await platform.call("POST", `${pathOf(sandbox)}/process`, { command: "true", waitForCompletion: true });
  if (done.exitCode !== 0) throw new Error(`the first command ended with ${done.exitCode}`);
}

async function measure(warmInstances: number, count: number): Promise<number[]> {
  await using platform = await spawnPlatform({
    CATNAP_WARM_INSTANCES: String(warmInstances),
    CATNAP_IDLE_TIMEOUT: "60s",
  });
  await platform.warmed();
  await createAndRun(platform);
  const samples: number[] = [];
  for (let index = 0; index < count; index++) {
    // The pool refills behind each claim; a create that finds it empty would be measured as the other case.
    await platform.warmed();
    samples.push(...(await sample(1, () => createAndRun(platform))));
  }
  return samples;
}

export async function benchCreate(): Promise<Result[]> {
  const bare = summarize(
    await sample(20, async () => {
      const child = spawn("unshare", [
        "--user",
        "--map-root-user",
        "--mount",
        "--pid",
        "--net",
        "--ipc",
        "--uts",
        "--fork",
        "true",
      ]);
      await once(child, "exit");
    }),
  );
  const warm = summarize(await measure(2, 40));
  const cold = summarize(await measure(0, 20));
  const baseline = { unshare_true_median: bare.median };
  return [
    {
      name: "create to first command finished, warm pool",
      unit: "ms",
      measured: { median: warm.median, p99: warm.p99 },
      baseline,
      goal: "at most 40 ms median",
      value: warm.median,
      met: warm.median <= 40,
    },
    {
      name: "create to first command finished, cold",
      unit: "ms",
      measured: { median: cold.median, p99: cold.p99 },
      baseline,
      goal: "at most 200 ms median",
      value: cold.median,
      met: cold.median <= 200,
      note: "The baseline is the machine's own price of fresh namespaces and one program, without image, limits or network.",
    },
  ];
}
