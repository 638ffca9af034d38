// `catnap up` as a process of its own: the first start, its self-check on a real sandbox, Ctrl-C, and a second start that finds what slept.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { randomToken } from "../../src/core/ids.ts";
import { createLogger } from "../../src/core/log.ts";
import { removeInstances } from "../../src/dev/remove.ts";
import { defaultDataDir } from "../../src/host/config.ts";
import { eventually } from "../eventually.ts";
import { cli, projectDir } from "./run-cli.ts";

const dataDir = mkdtempSync(join(tmpdir(), "cli-up-e2e-"));
const settings: Record<string, string> = {
  CATNAP_DATA_DIR: dataDir,
  CATNAP_IMAGE_DIR: process.env.CATNAP_IMAGE_DIR ?? join(process.env.CATNAP_DATA_DIR ?? defaultDataDir, "images"),
  CATNAP_CGROUP_PARENT: `catnap-${randomToken(8)}`,
};
const stops: (() => Promise<unknown>)[] = [];
after(async () => {
  for (const stop of stops) await stop();
  await removeInstances({ ...process.env, ...settings }, createLogger("error"));
  rmSync(dataDir, { recursive: true, force: true });
});

function up(args: string[] = [], more: Record<string, string> = {}) {
  const child = spawn(
    join(projectDir, "bin/catnap"),
    ["up", "--listen", "127.0.0.1:0", "--idle-timeout", "1s", ...args],
    {
      env: { ...process.env, ...settings, ...more },
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  const output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name].setEncoding("utf8").on("data", (chunk: string) => {
      output[name] += chunk;
    });
  }
  const ended = once(child, "exit");
  stops.push(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
    await ended;
  });
  return {
    child,
    output,
    ended,
    ready: () => eventually(() => assert.match(output.stdout, /ready on[\s\S]*export BL_API_URL=.*\n/)),
  };
}

test("what a person sees from the first start to the second", async () => {
  const first = up(["--log-level", "warn"]);
  await first.ready();
  assert.equal(first.output.stderr, "");
  const key = /kept in .*\n {2}(\S+)\n/.exec(first.output.stdout)?.[1] ?? "";
  assert.match(key, /^\S{20,}$/);
  for (const phase of ["create", "python", "server", "sleep", "wake", "delete"]) {
    assert.match(first.output.stdout, new RegExp(`^  ${phase} +[\\d.]+ m?s`, "m"));
  }
  const env = { CATNAP_DATA_DIR: dataDir };
  assert.equal((await cli(["credentials", "--key"], { env })).stdout, `${key}\n`);
  assert.equal((await cli(["sandbox", "list", "-q"], { env })).stdout, "");

  // The curl line works as it stands.
  const curl = /^curl .*$/m.exec(first.output.stdout)![0];
  const answer = spawn("sh", ["-c", `${curl} --silent --show-error --fail`], { stdio: ["ignore", "pipe", "inherit"] });
  assert.deepEqual(JSON.parse((await answer.stdout.setEncoding("utf8").toArray()).join("")), []);

  // A program that counts in memory sleeps through the restart of the platform.
  await cli(["sandbox", "create", "--name", "kept"], { env });
  const counting =
    "nohup sh -c 'n=41; while read _ < /tmp/ask; do n=$((n+1)); echo $n > /tmp/answer; done' > /dev/null 2>&1 &";
  await cli(["exec", "kept", "--", "sh", "-c", `mkfifo /tmp/ask /tmp/answer; ${counting}`], { env });
  first.child.kill("SIGINT");
  assert.deepEqual(await first.ended, [0, null]);
  assert.match(first.output.stdout, /stopped; sandboxes stay asleep/);

  const second = up();
  await second.ready();
  assert.doesNotMatch(second.output.stdout + second.output.stderr, new RegExp(`${key}|self-check`));
  const run = await cli(["exec", "kept", "--", "sh", "-c", "echo > /tmp/ask; cat /tmp/answer"], { env });
  assert.deepEqual([run.exitCode, run.stdout], [0, "42\n"]);
  await cli(["sandbox", "delete", "--yes", "kept"], { env });
  second.child.kill("SIGTERM");
  assert.deepEqual(await second.ended, [0, null]);
});

test("a start without the base image says so with the way out, and serves", async () => {
  const imageDir = join(dataDir, "no-images");
  const started = up(["--log-level", "error", "--no-self-check"], { CATNAP_IMAGE_DIR: imageDir });
  await started.ready();
  assert.match(started.output.stderr, /^catnap: .*blaxel\/base-image:latest.*\n {2}.*npm run setup.*\n$/);
  started.child.kill("SIGINT");
  assert.deepEqual(await started.ended, [0, null]);
});

test("a start whose database is not there names the setting and the place, and nobody's password", async () => {
  const url = "postgres://catnap:geheim@127.0.0.1:1/sandboxes";
  const started = up(["--log-level", "error"], { CATNAP_DATABASE_URL: url });
  assert.deepEqual(await started.ended, [1, null]);
  const { stdout, stderr } = started.output;
  assert.match(stderr, /CATNAP_DATABASE_URL.* 127\.0\.0\.1:1\/sandboxes, .*\(.*ECONNREFUSED.*\)/);
  assert.match(stderr, /docs\/operating\.md/);
  assert.doesNotMatch(stdout + stderr, /geheim/);
});
