// Watching while very much changes: nothing is lost unsaid, for one watcher, for many, and for one that does not read.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { eventually } from "../eventually.ts";
import { TestSandbox } from "./harness.ts";

const filesCount = 30_000;
let sandbox: TestSandbox;
before(async () => {
  sandbox = await TestSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());

type Told = { names: Set<string>; overflows: number };

async function watch(directory: string): Promise<IncomingMessage> {
  const answer = await sandbox.send({
    method: "GET",
    path: `/watch/filesystem/${encodeURIComponent(`${directory}/**`)}`,
  });
  assert.equal(answer.statusCode, 200);
  return answer;
}

function collect(answer: IncomingMessage): Told {
  const told: Told = { names: new Set(), overflows: 0 };
  let rest = "";
  answer.setEncoding("utf8").on("data", (chunk: string) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop()!;
    for (const line of lines) {
      if (line.startsWith("[")) continue;
      const { op, name } = JSON.parse(line) as { op: string; name: string };
      if (op === "OVERFLOW") told.overflows += 1;
      else if (op === "CREATE") told.names.add(name);
    }
  });
  answer.on("error", () => undefined).resume();
  return told;
}

/** As fast as a program can. */
async function createFiles(directory: string, count: number): Promise<number> {
  const startedAt = performance.now();
  const program = `for (let i = 0; i < ${count}; i++) require("fs").closeSync(require("fs").openSync("f" + i, "w"))`;
  await promisify(execFile)(process.execPath, ["-e", program], { cwd: directory });
  return count / ((performance.now() - startedAt) / 1_000);
}

test("of tens of thousands of changes as fast as they can be made each is told, or an overflow is", async (context) => {
  const directory = join(sandbox.workingDir, "flood");
  mkdirSync(directory);
  const answers = await Promise.all(Array.from({ length: 5 }, () => watch(directory)));
  const [reading, slow] = [answers.slice(0, 4).map(collect), answers[4]!];
  slow.pause();
  context.diagnostic(`${Math.round(await createFiles(directory, filesCount))} files a second`);
  const isTold = ({ names, overflows }: Told): boolean => names.size === filesCount || overflows > 0;
  await eventually(() => assert.ok(reading.every(isTold), reading.map(({ names }) => names.size).join()));
  context.diagnostic(reading.map(({ names, overflows }) => `${names.size} told, ${overflows} overflows`).join("; "));
  // The one that did not read holds up nobody, and finds everything or an overflow when it does.
  const late = collect(slow);
  await eventually(() => assert.ok(isTold(late), `${late.names.size}`));
  for (const answer of answers) answer.destroy();
  assert.equal((await sandbox.ask("GET", "/health")).status, 200);
});

test("what does not fit the kernel's queue while the watcher stands still is told as an overflow", async () => {
  const directory = join(sandbox.workingDir, "overflowing");
  mkdirSync(directory);
  const answer = await watch(directory);
  const told = collect(answer);
  const queueMax = Number(readFileSync("/proc/sys/fs/inotify/max_queued_events", "utf8"));
  // Those of the test before may still be ending.
  const watchers = await eventually(() => {
    const found = watchersOf(sandbox.guestPid);
    assert.equal(found.length, 1);
    return found;
  });
  for (const pid of watchers) process.kill(pid, "SIGSTOP");
  try {
    await createFiles(directory, queueMax + 1_000);
  } finally {
    for (const pid of watchers) process.kill(pid, "SIGCONT");
  }
  await eventually(() => assert.ok(told.overflows > 0, `${told.names.size} names and no overflow were told`));
  assert.ok(told.names.size < queueMax + 1_000);
  answer.destroy();
});

/** The workers of a guest that hold an inotify queue; others may end at any moment. */
function watchersOf(guestPid: number): number[] {
  const children = readFileSync(`/proc/${guestPid}/task/${guestPid}/children`, "utf8").trim().split(" ");
  return children.map(Number).filter((pid) => {
    try {
      const descriptors = readdirSync(`/proc/${pid}/fd`);
      return descriptors.some((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`) === "anon_inode:inotify");
    } catch {
      return false;
    }
  });
}

test("more watchers than there are places are refused, and places come back", async () => {
  const answers: IncomingMessage[] = [];
  for (let count = 0; count < 20; count++) answers.push(await eventually(() => watch(sandbox.workingDir)));
  const path = `/watch/filesystem/${encodeURIComponent(sandbox.workingDir)}`;
  const refused = await sandbox.ask("GET", path);
  assert.equal(refused.status, 429);
  assert.match((refused.json as { error: string }).error, /watched at once/);
  for (const answer of answers) answer.on("error", () => undefined).destroy();
  (await eventually(() => watch(sandbox.workingDir))).on("error", () => undefined).destroy();
});
