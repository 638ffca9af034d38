// A throw-away platform in a process and data directory of its own, for end-to-end tests and benchmarks: killable, removed without a trace.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { randomToken } from "../core/ids.ts";
import { createLogger } from "../core/log.ts";
import { defaultDataDir } from "../host/config.ts";
import { removeInstances } from "./remove.ts";

export type SpawnedPlatform = AsyncDisposable & {
  /** Changes when the platform is started again. */
  readonly url: string;
  readonly apiKey: string;
  readonly dataDir: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly pid: number;
  /** Resolves when the warm instances are ready. */
  warmed(): Promise<void>;
  /** Resident memory of the daemon, in bytes. */
  daemonRssBytes(): Promise<number>;
  /** A JSON request with the platform's key; throws when the answer is not a success. */
  call(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>;
  /** SIGKILL: the daemon dies as it stands. */
  kill(): Promise<void>;
  /** SIGTERM: sandboxes are put to sleep first. */
  stop(): Promise<void>;
  /** Starts the platform again on the same data directory and port. */
  start(): Promise<void>;
};

const answerTimeoutMs = 300_000;

/** `settings` are CATNAP_ variables; the image directory is the machine's, everything else is private to this platform. */
export async function spawnPlatform(settings: Record<string, string> = {}): Promise<SpawnedPlatform> {
  const dataDir = mkdtempSync(join(tmpdir(), "catnap-platform-"));
  const env: Record<string, string | undefined> = {
    ...process.env,
    CATNAP_IMAGE_DIR: process.env.CATNAP_IMAGE_DIR ?? join(process.env.CATNAP_DATA_DIR ?? defaultDataDir, "images"),
    CATNAP_CGROUP_PARENT: `catnap-${randomToken(8)}`,
    CATNAP_LISTEN: "127.0.0.1:0",
    ...settings,
    CATNAP_DATA_DIR: dataDir,
  };
  let child: ChildProcess | undefined;
  let url = "";
  let apiKey = "";

  const start = async (): Promise<void> => {
    child = fork(fileURLToPath(new URL("serve.ts", import.meta.url)), {
      env,
      execArgv: ["--disable-warning=ExperimentalWarning"],
    });
    const started = (await answer(child)) as { url: string; apiKey?: string };
    url = started.url;
    apiKey = started.apiKey ?? apiKey;
    env.CATNAP_LISTEN = new URL(url).host;
  };
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill(signal);
    await exited;
  };
  const ask = async (question: string): Promise<unknown> => {
    const answered = answer(child!);
    child!.send(question);
    return answered;
  };
  const remove = async (): Promise<void> => {
    await end("SIGTERM");
    // Sandboxes and warm instances outlive a stopped daemon by design; a throw-away platform leaves none.
    await removeInstances(env, createLogger("error"));
    rmSync(dataDir, { recursive: true, force: true });
  };

  try {
    await start();
  } catch (error) {
    await remove();
    throw error;
  }
  return {
    get url() {
      return url;
    },
    get apiKey() {
      return apiKey;
    },
    get pid() {
      return child!.pid!;
    },
    dataDir,
    env,
    call: (method, path, body) => callJson({ url, apiKey }, method, path, body),
    warmed: () => ask("warmed").then(() => undefined),
    daemonRssBytes: async () => ((await ask("memory")) as { rssBytes: number }).rssBytes,
    kill: () => end("SIGKILL"),
    stop: () => end("SIGTERM"),
    start,
    [Symbol.asyncDispose]: remove,
  };
}

async function callJson(
  { url, apiKey }: { url: string; apiKey: string },
  method: string,
  path: string,
  body: unknown,
): Promise<Record<string, unknown>> {
  const response = await fetch(path.startsWith("http") ? path : url + path, {
    method,
    headers: {
      authorization: `Bearer ${apiKey}`,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text.slice(0, 1_000)}`);
  return JSON.parse(text) as Record<string, unknown>;
}

/** The next message of the child; rejects when it exits or stays silent. */
async function answer(child: ChildProcess): Promise<unknown> {
  const answered = new AbortController();
  const signal = AbortSignal.any([answered.signal, AbortSignal.timeout(answerTimeoutMs)]);
  const exited = once(child, "exit", { signal }).then(() => {
    throw new Error("the platform's process exited");
  });
  try {
    const [message] = (await Promise.race([once(child, "message", { signal }), exited])) as [unknown];
    return message;
  } finally {
    // Takes the listeners off that have waited in vain.
    answered.abort();
  }
}
