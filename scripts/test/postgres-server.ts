// A PostgreSQL server of the tests' own: unpacked from Debian's packages, in a temporary directory, on a loopback port, run as `nobody`.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, globSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";

/** The server refuses to run as root. */
const nobody = { uid: 65_534, gid: 65_534 };
const startTimeoutMs = 30_000;

const serverSettings = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  max_connections: "300",
  shared_buffers: "64MB",
  jit: "off",
  // Neither says anything about what the tests look at, and both are slow on a shared disk: nothing here outlives the run.
  fsync: "off",
  full_page_writes: "off",
  max_wal_size: "256MB",
};

export type PostgresServer = AsyncDisposable & {
  /** Of a database of that name, which need not exist. */
  urlOf(database: string): string;
  createDatabase(database: string): Promise<string>;
  dropDatabase(database: string): Promise<void>;
  start(): Promise<void>;
  /** `immediate` is as hard as a crash: what was acknowledged comes back from the log. */
  stop(how?: "fast" | "immediate"): Promise<void>;
};

/** Throws when the tests' set-up has not unpacked the programs. */
export function findPostgresPrograms(): { bin: string; libraries: string } {
  const dataDir = process.env.CATNAP_DATA_DIR || "/var/lib/catnap";
  const root = join(process.env.CATNAP_IMAGE_DIR || join(dataDir, "images"), "test-tools/postgresql-15");
  const bin = join(root, "usr/lib/postgresql/15/bin");
  if (!existsSync(join(bin, "postgres"))) {
    throw new Error(`there is no ${bin}/postgres; run node scripts/setup.mjs --tests`);
  }
  return { bin, libraries: globSync(join(root, "usr/lib/*-linux-gnu")).join(":") };
}

/** The files of its programs may lie where `nobody` may not go: they are copied beside the data. */
function copyPrograms(to: string): { bin: string; libraries: string } {
  const { bin, libraries } = findPostgresPrograms();
  const root = bin.slice(0, -"/usr/lib/postgresql/15/bin".length);
  execFileSync("cp", ["-a", "--reflink=auto", join(root, "usr"), to]);
  return { bin: join(to, bin.slice(root.length)), libraries: libraries.replaceAll(root, to) };
}

type Cluster = {
  bin: string;
  data: string;
  password: string;
  options: { uid: number; gid: number; cwd: string; env: NodeJS.ProcessEnv };
};

function initialize(dir: string): Cluster {
  chownSync(dir, nobody.uid, nobody.gid);
  const { bin, libraries } = copyPrograms(dir);
  const environment = { PATH: process.env.PATH, LD_LIBRARY_PATH: libraries, LC_ALL: "C", TMPDIR: process.env.TMPDIR };
  const options = { ...nobody, cwd: dir, env: environment };
  const data = join(dir, "data");
  const password = crypto.randomUUID();
  const passwordFile = join(dir, "password");
  writeFileSync(passwordFile, password, { mode: 0o600 });
  chownSync(passwordFile, nobody.uid, nobody.gid);
  // The order of text of a language, as most servers have it, and not the order of bytes that SQLite has.
  const locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=icu", "--icu-locale=en"];
  const access = ["--username=catnap", "--auth=scram-sha-256", `--pwfile=${passwordFile}`];
  const initdb = ["--pgdata", data, ...locale, ...access, "--no-sync", "--no-instructions"];
  execFileSync(join(bin, "initdb"), initdb, { ...options, stdio: ["ignore", "ignore", "pipe"] });
  return { bin, data, password, options };
}

/** The server ends with this process, however that ends. */
function spawnServer({ bin, data, options }: Cluster, settings: Record<string, string>): ChildProcess {
  const { uid, gid, ...rest } = options;
  const args = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const asNobody = [`--reuid=${uid}`, `--regid=${gid}`, "--clear-groups", "--pdeathsig=QUIT"];
  return spawn("setpriv", [...asNobody, join(bin, "postgres"), "-D", data, ...args], { ...rest, stdio: "ignore" });
}

export async function startPostgres(settings: Readonly<Record<string, string>> = {}): Promise<PostgresServer> {
  const dir = mkdtempSync(join(tmpdir(), "catnap-postgres-"));
  const cluster = initialize(dir);
  const port = await freePort();
  const urlOf = (database: string): string => `postgres://catnap:${cluster.password}@127.0.0.1:${port}/${database}`;
  let server: { process: ChildProcess; ended: Promise<unknown> } | undefined;

  const start = async (): Promise<void> => {
    const child = spawnServer(cluster, { ...serverSettings, port: String(port), ...settings });
    server = { process: child, ended: new Promise((resolve) => child.once("exit", resolve)) };
    await untilItAnswers(urlOf("postgres"), child);
  };
  const stop = async (how: "fast" | "immediate" = "fast"): Promise<void> => {
    const stopping = server;
    server = undefined;
    stopping?.process.kill(how === "fast" ? "SIGINT" : "SIGQUIT");
    await stopping?.ended;
  };
  const administer = async (statement: string): Promise<void> => {
    const client = new pg.Client({ connectionString: urlOf("postgres") });
    await client.connect();
    await client.query(statement).finally(() => client.end());
  };
  try {
    await start();
  } catch (error) {
    await stop("immediate");
    rmSync(dir, { recursive: true, force: true });
    throw error;
  }
  // However the process ends, the server does not outlive it.
  const kill = (): void => {
    server?.process.kill("SIGQUIT");
    rmSync(dir, { recursive: true, force: true });
  };
  process.once("exit", kill);
  return {
    urlOf,
    async createDatabase(database) {
      await administer(`create database "${database}"`);
      return urlOf(database);
    },
    dropDatabase: (database) => administer(`drop database if exists "${database}" with (force)`),
    start,
    stop,
    async [Symbol.asyncDispose]() {
      process.off("exit", kill);
      await stop("immediate");
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function untilItAnswers(url: string, server: ChildProcess): Promise<void> {
  const deadline = Date.now() + startTimeoutMs;
  for (;;) {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1_000 });
    client.on("error", () => undefined);
    try {
      await client.connect();
      await client.end();
      return;
    } catch (error) {
      if (server.exitCode !== null) throw new Error("the tests' database server ended", { cause: error });
      if (Date.now() > deadline) throw new Error("the tests' database server does not answer", { cause: error });
    }
    await delay(50);
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
