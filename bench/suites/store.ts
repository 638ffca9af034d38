// The store: one sandbox and a page of fifty at a thousand and at a million stored, searching, checking a key, recording new ones.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startPostgres } from "../../scripts/test/postgres-server.ts";
import { Connection, expectOk } from "../http-client.ts";
import type { Result } from "../report.ts";
import { sample, summarize } from "../stats.ts";
import { bareCommitsPerSecond, fill, type Store } from "../stored-sandboxes.ts";

const few = 1_000;
const many = 1_000_000;
const samples = 1_000;
const callers = 16;
const createMs = 4_000;
const paged = { "blaxel-version": "2026-04-28" };

type Running = AsyncDisposable & { open(headers?: Record<string, string>): Promise<Connection> };

export async function benchStore(): Promise<Result[]> {
  const dir = mkdtempSync(join(tmpdir(), "catnap-bench-store-"));
  // As an operator runs it: durable.
  await using server = await startPostgres({ fsync: "on", full_page_writes: "on", shared_buffers: "256MB" });
  try {
    const results: Result[] = [];
    results.push(...(await measure({ kind: "SQLite", path: join(dir, "control-plane", "catnap.db") }, dir)));
    const other = mkdtempSync(join(dir, "postgres-"));
    results.push(...(await measure({ kind: "PostgreSQL", url: await server.createDatabase("bench") }, other)));
    return results;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

type Reads = { one: number[]; page: number[]; bare: number[]; auth: number[] };

async function measure(store: Store, dataDir: string): Promise<Result[]> {
  let apiKey = "";
  const start = async (): Promise<Running> => {
    const running = await startControlPlane(store, dataDir, apiKey);
    apiKey = running.apiKey;
    return running;
  };
  let creates = 0;
  {
    await using running = await start();
    using connection = await running.open();
    await create(connection, "template");
    creates = await createsPerSecond(running);
  }
  const bare = await bareCommitsPerSecond(store, callers, createMs);
  await fill(store, 1, few);
  const atFew = await measureReads(await start(), few);
  const startedAt = performance.now();
  await fill(store, few + 1, many);
  const filledS = (performance.now() - startedAt) / 1000;
  const running = await start();
  const search = await measureSearch(running);
  const atMany = await measureReads(running, many);
  const { kind } = store;
  return [
    ratio(`${kind}: GET /v0/sandboxes/{name}, each name once`, atFew.one, atMany.one, atMany.bare),
    {
      ...ratio(`${kind}: a page of 50 with its total`, atFew.page, atMany.page, atMany.bare),
      note: `filled in ${filledS.toFixed(0)} s`,
    },
    {
      name: `${kind}: checking an API key`,
      unit: "ms",
      measured: figures(atMany.auth),
      goal: "median at most 0.2 ms",
      value: summarize(atMany.auth).median,
      met: summarize(atMany.auth).median <= 0.2,
    },
    {
      name: `${kind}: others' requests while a million sandboxes are searched`,
      unit: "ms",
      measured: { ...figures(search.others), search: search.durationMs },
      baseline: figures(atMany.one),
      goal: "p99 at most 50 ms",
      value: summarize(search.others).p99,
      met: summarize(search.others).p99 <= 50,
    },
    {
      name: `${kind}: sandboxes recorded a second, ${callers} callers`,
      unit: "1/s",
      measured: { creates },
      baseline: { bare_durable_commits: bare },
      goal: "at least 100 a second; each is two transactions",
      value: creates,
      met: creates >= 100,
    },
  ];
}

function figures(times: number[]): Record<string, number> {
  const { median, p99 } = summarize(times);
  return { median, p99 };
}

function ratio(name: string, atFew: number[], atMany: number[], bare: number[]): Result {
  const value = summarize(atMany).median / summarize(atFew).median;
  return {
    name,
    unit: "ms",
    measured: { at_1000: summarize(atFew).median, at_1000000: summarize(atMany).median },
    baseline: { bare_node_http: summarize(bare).median },
    goal: "at a million at most 1.5x of what it costs at a thousand",
    value,
    met: value <= 1.5,
  };
}

/** Stops what it measured. */
async function measureReads(running: Running, stored: number): Promise<Reads> {
  await using _running = running;
  using connection = await running.open(paged);
  const auth: number[] = [];
  const pages = async (count: number): Promise<number[]> =>
    sample(count, async () => {
      const answer = expectOk(await connection.request("GET", "/v0/sandboxes"));
      auth.push(Number(/auth;dur=([\d.]+)/.exec(answer.headers)?.[1] ?? Number.NaN));
    });
  await pages(samples / 5);
  auth.length = 0;
  const page = await pages(samples / 2);
  // Spread over all; names that were asked for before would come from memory.
  const nameOf = (index: number): string => `box-${1 + Math.floor((index * stored) / samples)}`;
  const one = await sample(samples, async (index) => {
    expectOk(await connection.request("GET", `/v0/sandboxes/${nameOf(index)}`));
  });
  const { body } = await connection.request("GET", `/v0/sandboxes/${nameOf(0)}`);
  return { one, page, auth, bare: await measureBare(body.toString()) };
}

async function measureBare(body: string): Promise<number[]> {
  const child = fork(fileURLToPath(new URL("../bare-json-server.ts", import.meta.url)), [body]);
  try {
    const [{ url }] = (await once(child, "message")) as [{ url: string }];
    using connection = await Connection.open(url);
    await sample(samples / 5, () => connection.request("GET", "/v0/sandboxes/any"));
    return await sample(samples, () => connection.request("GET", "/v0/sandboxes/any"));
  } finally {
    child.kill();
    await once(child, "exit");
  }
}

/** A search that finds nothing looks at everything. */
async function measureSearch(running: Running): Promise<{ durationMs: number; others: number[] }> {
  using searching = await running.open(paged);
  using other = await running.open();
  await other.request("GET", "/v0/sandboxes/box-1");
  const startedAt = performance.now();
  let durationMs = 0;
  const search = searching.request("GET", "/v0/sandboxes?q=nowhere-to-be-found").then((answer) => {
    expectOk(answer);
    durationMs = performance.now() - startedAt;
  });
  const others: number[] = [];
  while (durationMs === 0 && others.length < 100_000) {
    others.push(...(await sample(1, async () => expectOk(await other.request("GET", "/v0/sandboxes/box-1")))));
  }
  await search;
  return { durationMs, others };
}

async function createsPerSecond(running: Running): Promise<number> {
  const connections = await Promise.all(Array.from({ length: callers }, () => running.open()));
  const startedAt = performance.now();
  let created = 0;
  await Promise.all(
    connections.map(async (connection, caller) => {
      for (let index = 0; performance.now() - startedAt < createMs; index++, created++) {
        await create(connection, `made-${caller}-${index}`);
      }
    }),
  );
  const perSecond = created / ((performance.now() - startedAt) / 1000);
  for (const connection of connections) connection[Symbol.dispose]();
  return perSecond;
}

async function create(connection: Connection, name: string): Promise<void> {
  expectOk(await connection.request("POST", "/v0/sandboxes", JSON.stringify({ metadata: { name }, spec: {} })));
}

async function startControlPlane(store: Store, dataDir: string, known: string): Promise<Running & { apiKey: string }> {
  const env = { ...process.env, CATNAP_DATABASE_URL: store.kind === "PostgreSQL" ? store.url : "" };
  const script = fileURLToPath(new URL("../control-plane-server.ts", import.meta.url));
  const child: ChildProcess = fork(script, [dataDir], { env, execArgv: ["--disable-warning=ExperimentalWarning"] });
  const ended = once(child, "exit");
  const [started] = (await Promise.race([
    once(child, "message"),
    ended.then(() => Promise.reject(new Error("the control plane ended early"))),
  ])) as [{ url: string; apiKey?: string }];
  const apiKey = started.apiKey ?? known;
  return {
    apiKey,
    open: (headers = {}) => Connection.open(started.url, { authorization: `Bearer ${apiKey}`, ...headers }),
    async [Symbol.asyncDispose]() {
      child.kill();
      await ended;
    },
  };
}
