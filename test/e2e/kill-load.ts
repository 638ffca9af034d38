// Load for the kill test: uses a platform from several sides at once and remembers only what the platform acknowledged.
import { setTimeout as delay } from "node:timers/promises";
import type { SpawnedPlatform } from "../../src/dev/spawn-platform.ts";

export type Acknowledged = {
  /** Sandboxes whose creation was answered and whose deletion was not asked for. */
  alive: Map<string, Known>;
  /** Sandboxes whose deletion was answered. */
  deleted: Set<string>;
};

export type Known = {
  url: string;
  /** The `ticker` process once its start was answered. */
  ticker: { pid: string; logs: string } | undefined;
  /** Files whose upload was answered. */
  files: Map<string, string>;
};

/** Prints its own count; a gap or a repetition in the log is a lost or doubled byte. */
const tickerCommand = "n=0; while :; do n=$((n+1)); echo $n; sleep 0.02; done";

/** Runs until the signal aborts; failures of requests are what a kill looks like and are not remembered. */
export async function applyLoad(platform: SpawnedPlatform, known: Acknowledged, signal: AbortSignal): Promise<void> {
  await Promise.all([
    repeat(signal, (round) => createAndDelete(platform, known, `short-${round}`)),
    repeat(signal, () => createLasting(platform, known)),
    repeat(signal, () => readLogs(platform, known)),
    repeat(signal, (round) => writeFile(platform, known, round)),
  ]);
}

async function repeat(signal: AbortSignal, work: (round: number) => Promise<void>): Promise<void> {
  for (let round = 0; !signal.aborted && round < 100_000; round++) {
    await work(round).catch(() => delay(5));
    await delay(1);
  }
}

async function createAndDelete(platform: SpawnedPlatform, known: Acknowledged, prefix: string): Promise<void> {
  const name = `${prefix}-${Date.now().toString(36)}`;
  await platform.call("POST", "/v0/sandboxes", { metadata: { name }, spec: { runtime: { memory: 512 } } });
  // Until the deletion is answered it may be either, so it is neither alive nor deleted.
  await platform.call("DELETE", `/v0/sandboxes/${name}`);
  known.deleted.add(name);
}

const lastingMax = 4;

async function createLasting(platform: SpawnedPlatform, known: Acknowledged): Promise<void> {
  if (known.alive.size >= lastingMax) {
    await delay(20);
    return;
  }
  const name = `lasting-${Date.now().toString(36)}`;
  const made = await platform.call("POST", "/v0/sandboxes", { metadata: { name }, spec: { runtime: { memory: 512 } } });
  const sandbox: Known = { url: (made.metadata as { url: string }).url, ticker: undefined, files: new Map() };
  known.alive.set(name, sandbox);
  const started = await platform.call("POST", pathOf(sandbox, "/process"), { name: "ticker", command: tickerCommand });
  sandbox.ticker = { pid: started.pid as string, logs: "" };
}

async function readLogs(platform: SpawnedPlatform, known: Acknowledged): Promise<void> {
  for (const sandbox of known.alive.values()) {
    if (sandbox.ticker === undefined) continue;
    const logs = await platform.call("GET", pathOf(sandbox, "/process/ticker/logs"));
    sandbox.ticker.logs = logs.stdout as string;
  }
  await delay(10);
}

async function writeFile(platform: SpawnedPlatform, known: Acknowledged, round: number): Promise<void> {
  for (const sandbox of known.alive.values()) {
    const path = `/tmp/file-${round % 5}`;
    const content = `content ${round} ${"x".repeat(round % 1_000)}`;
    // While a write is under way either content may be there.
    sandbox.files.delete(path);
    await platform.call("PUT", pathOf(sandbox, `/filesystem/${encodeURIComponent(path)}`), { content });
    sandbox.files.set(path, content);
  }
  await delay(10);
}

export function pathOf(sandbox: Known, rest: string): string {
  return new URL(sandbox.url).pathname + rest;
}
