// Running a command: `true` through the sandbox API against a plain spawn from Node on the same machine.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { Connection, expectOk } from "../http-client.ts";
import type { Result } from "../report.ts";
import { sample, summarize } from "../stats.ts";
import { createSandbox, pathOf } from "./fleet.ts";

const count = 300;

export async function benchExec(): Promise<Result[]> {
  await using platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "60s" });
  // The size a sandbox has when nobody says otherwise.
  const sandbox = await createSandbox(platform, { memoryMb: 4096 });
  using connection = await Connection.open(platform.url, { authorization: `Bearer ${platform.apiKey}` });
  const body = JSON.stringify({ command: "true", waitForCompletion: true });
  const exec = (): Promise<unknown> => connection.request("POST", `${pathOf(sandbox)}/process`, body).then(expectOk);
  // The API runs commands through a shell, as its contract says; the like-for-like baseline does too.
  const bare = (program: string, args: string[]) => async () => {
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.resume();
    child.stderr.resume();
    await once(child, "close");
  };
  await sample(50, exec);
  await sample(50, bare("true", []));
  const measured = summarize(await sample(count, exec));
  const direct = summarize(await sample(count, bare("true", [])));
  const shell = summarize(await sample(count, bare("/bin/sh", ["-c", "true"])));
  const ratio = measured.median / direct.median;
  return [
    {
      name: "exec `true` over HTTP",
      unit: "ms",
      measured: { median: measured.median, p99: measured.p99 },
      baseline: { spawn_true_median: direct.median, spawn_true_p99: direct.p99, spawn_sh_median: shell.median },
      goal: "at most 2x a spawn of `true` from Node",
      value: ratio,
      met: ratio <= 2,
    },
  ];
}
