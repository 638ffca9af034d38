// `npm test`: runs the test files, those that make real sandboxes one after the other, then looks for what they left on the machine.
// `npm test -- <text>...` runs the files whose path contains one of the texts.
import { spawnSync } from "node:child_process";
import { chmodSync, globSync, mkdtempSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { endOwnProcesses, listOwnThings, listSandboxThings, othersAreAtWork } from "./test/leftovers.ts";
import { startPostgres } from "./test/postgres-server.ts";
import { type Counts, runFiles } from "./test/run-files.ts";

/** Folders whose files share nothing with each other. All other files, and every `.e2e.test.ts`, make real sandboxes and run alone. */
const parallelFolders = [
  "test/cli/",
  "test/contract/",
  "test/control-plane/",
  "test/core/",
  "test/dev/",
  "test/edge/",
  "test/images/",
];

const totalTimeoutMs = 75 * 60_000;
const fileTimeoutMs = 20 * 60_000;
const settleTimeoutMs = 15_000;

async function main(selections: string[]): Promise<void> {
  process.chdir(join(import.meta.dirname, ".."));
  const files = globSync("test/**/*.test.ts").sort();
  const chosen =
    selections.length === 0 ? files : files.filter((file) => selections.some((text) => file.includes(text)));
  if (chosen.length === 0) {
    console.error(`No test file's path contains ${selections.join(" or ")}.`);
    process.exitCode = 1;
    return;
  }
  // Everything tests put into temporary files lies in one place of this run, so that it can be told apart and removed.
  const scratchDir = mkdtempSync("/tmp/catnap-");
  process.env.TMPDIR = scratchDir;
  // The database server of the tests is not root and has its files in there.
  chmodSync(scratchDir, 0o711);
  const before = listSandboxThings();
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(new Error("the total time is over")), totalTimeoutMs);
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort(new Error(signal)));

  const startedAt = performance.now();
  const isParallel = (file: string): boolean =>
    parallelFolders.some((folder) => file.startsWith(folder)) && !file.endsWith(".e2e.test.ts");
  const groups = [
    { title: "Side by side", files: chosen.filter(isParallel), concurrency: 2 },
    {
      title: "The control plane again, on PostgreSQL",
      files: chosen.filter((file) => file.startsWith("test/control-plane/")),
      concurrency: 2,
      prepare: preparePostgres,
    },
    {
      title: "One after the other, on real sandboxes",
      files: chosen.filter((file) => !isParallel(file)),
      concurrency: 1,
    },
  ];
  const write = (text: string): void => void process.stdout.write(text);
  const counts = await runFiles({ groups, fileTimeoutMs, signal: stop.signal, write });
  clearTimeout(timer);
  const isClean = reportLeftovers(await findLeftovers(before, scratchDir), scratchDir);
  endOwnProcesses(scratchDir);
  spawnSync("rm", ["-rf", "--one-file-system", "--", scratchDir]);
  printSummary(counts, (performance.now() - startedAt) / 1000);
  if (stop.signal.aborted) console.log(`stopped: ${(stop.signal.reason as Error).message}`);
  process.exitCode = counts.failed + counts.cancelled === 0 && isClean && !stop.signal.aborted ? 0 : 1;
  // A test process that does not end keeps a pipe open; the result is known, so nothing is waited for.
  process.exit();
}

/** One server for all files of a run; see `test/control-plane/databases.ts`. */
async function preparePostgres(): Promise<AsyncDisposable & { environment: Record<string, string> }> {
  const server = await startPostgres();
  const environment = { CATNAP_TEST_DATABASE: "postgres", CATNAP_TEST_POSTGRES_URL: server.urlOf("postgres") };
  return { environment, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

type Leftovers = { own: string[]; new: string[] };

/** What is there now and was not before, once it has had time to go. */
async function findLeftovers(before: ReadonlySet<string>, scratchDir: string): Promise<Leftovers> {
  const deadline = Date.now() + settleTimeoutMs;
  for (;;) {
    const own = listOwnThings(scratchDir);
    const left = { own, new: [...listSandboxThings()].filter((thing) => !before.has(thing) && !own.includes(thing)) };
    if ((own.length === 0 && left.new.length === 0) || Date.now() > deadline) return left;
    await delay(250);
  }
}

/** Prints what is left and says whether the tests are in the clear: with another platform at work, new things may be its. */
function reportLeftovers(left: Leftovers, scratchDir: string): boolean {
  const files = readdirSync(scratchDir).filter((name) => name !== "node-compile-cache");
  if (files.length > 0) console.log(`\nTemporary files that tests did not remove (removed now): ${files.join(", ")}`);
  const isShared = othersAreAtWork(scratchDir);
  const ours = isShared ? left.own : [...left.own, ...left.new];
  if (ours.length > 0) console.log(`\nLeft behind by the tests:\n  ${ours.join("\n  ")}`);
  if (isShared && left.new.length > 0) {
    console.log(`\nNew on this machine, perhaps of the other platform that runs here:\n  ${left.new.join("\n  ")}`);
  }
  return ours.length === 0;
}

function printSummary(counts: Counts, durationS: number): void {
  const { tests, suites, passed, failed, cancelled, skipped, todo } = counts;
  const lines = {
    tests,
    suites,
    pass: passed,
    fail: failed,
    cancelled,
    skipped,
    todo,
    duration_s: durationS.toFixed(1),
  };
  for (const [name, value] of Object.entries(lines)) console.log(`ℹ ${name} ${value}`);
}

await main(process.argv.slice(2));
