// Runs test files with node:test and adds up what came of them, so that several runs end in one summary.
import { Transform } from "node:stream";
import { run } from "node:test";
import { spec } from "node:test/reporters";

export type Counts = {
  tests: number;
  suites: number;
  passed: number;
  failed: number;
  cancelled: number;
  skipped: number;
  todo: number;
};

export type FileGroup = {
  title: string;
  files: string[];
  concurrency: number;
  /** Sets up what the group needs and says what its files find in their environment; torn down when they have run. */
  prepare?: () => Promise<AsyncDisposable & { environment: Record<string, string> }>;
};

export type RunOptions = {
  groups: FileGroup[];
  fileTimeoutMs: number;
  signal: AbortSignal;
  write: (text: string) => void;
};

const countLine = /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) /;

/** Every group is one run; the failures of all are repeated at the end, before the caller prints the counts. */
export async function runFiles({ groups, fileTimeoutMs, signal, write }: RunOptions): Promise<Counts> {
  const counts: Counts = { tests: 0, suites: 0, passed: 0, failed: 0, cancelled: 0, skipped: 0, todo: 0 };
  const report = new spec();
  const ended = new Promise((resolve) => report.on("end", resolve));
  report.on("data", (chunk: string | Buffer) => write(chunk.toString()));
  for (const { title, files, concurrency, prepare } of groups) {
    if (files.length === 0 || signal.aborted) continue;
    write(`\n${title} (${files.length} files)\n`);
    await using prepared = await prepare?.();
    using _environment = setEnvironment(prepared?.environment ?? {});
    const execArgv = ["--disable-warning=ExperimentalWarning"];
    const events = run({ files, concurrency, timeout: fileTimeoutMs, signal, execArgv });
    const countAndPass = new Transform({
      objectMode: true,
      transform(event: { type: string; data: Record<string, unknown> }, _encoding, done) {
        const isSummary = event.type === "test:summary" && event.data.file === undefined;
        if (isSummary) add(counts, event.data.counts as Counts);
        const isCount =
          event.type === "test:diagnostic" && event.data.nesting === 0 && countLine.test(String(event.data.message));
        done(undefined, isSummary || isCount ? undefined : event);
      },
    });
    await new Promise((resolve, reject) => {
      countAndPass.on("end", resolve).on("error", reject);
      events.on("error", reject).pipe(countAndPass).pipe(report, { end: false });
    });
  }
  // The reporter repeats the failures when it sees a summary: once, for all groups.
  report.end({ type: "test:summary", data: { file: undefined } });
  await ended;
  return counts;
}

/** Test processes inherit this one's environment. */
function setEnvironment(environment: Record<string, string>): Disposable {
  Object.assign(process.env, environment);
  return {
    [Symbol.dispose]() {
      for (const name of Object.keys(environment)) delete process.env[name];
    },
  };
}

function add(sum: Counts, counts: Counts): void {
  for (const key of Object.keys(sum) as (keyof Counts)[]) sum[key] += counts[key];
}
