// Small files and searches: 1 KiB files sixteen at once against a bare Node server, and searches of 20,000 files against the shell's own programs.
import { mkdtempSync, rmSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { Connection, expectOk } from "../http-client.ts";
import type { Result } from "../report.ts";
import { sample, summarize } from "../stats.ts";
import { createSandbox, pathOf } from "./fleet.ts";

const atOnce = 16;
const perRound = 640;
const rounds = 5;
const searches = 15;
const content = "x".repeat(1024);
const makeTree =
  "mkdir -p /srv/tree && cd /srv/tree && for d in $(seq 100); do mkdir d$d; for f in $(seq 200); do echo line $d $f > d$d/f$f.txt; done; done; echo needle in the tree > d57/found.txt";

type Work = (connection: Connection, index: number) => Promise<unknown>;

/** Operations a second over sixteen connections. */
async function rate(connections: readonly Connection[], work: Work): Promise<number> {
  let next = 0;
  const startedAt = performance.now();
  await Promise.all(
    connections.map(async (connection) => {
      while (next < perRound) await work(connection, next++);
    }),
  );
  return perRound / ((performance.now() - startedAt) / 1_000);
}

/** Writes and reads files as JSON with nothing between socket and disk. */
async function startBareServer(): Promise<AsyncDisposable & { url: string }> {
  const dir = mkdtempSync(join(tmpdir(), "catnap-bare-"));
  const server = createServer((request, response) => {
    const path = join(dir, request.url!.replaceAll("/", "_"));
    const answer = async (): Promise<object> => {
      if (request.method === "GET") return { content: await readFile(path, "utf8") };
      await writeFile(path, (JSON.parse((await buffer(request)).toString()) as { content: string }).content);
      return { path };
    };
    answer().then(
      (value) => {
        const body = JSON.stringify(value);
        response.writeHead(200, { "content-length": Buffer.byteLength(body) }).end(body);
      },
      () => response.destroy(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export async function benchFiles(): Promise<Result[]> {
  await using platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "60s" });
  const sandbox = await createSandbox(platform, { memoryMb: 4096 });
  await using bare = await startBareServer();
  using opened = new DisposableStack();
  const open = async (url: string, headers: Record<string, string> = {}): Promise<Connection[]> => {
    const connections = await Promise.all(Array.from({ length: atOnce }, () => Connection.open(url, headers)));
    for (const connection of connections) opened.use(connection);
    return connections;
  };
  const own = await open(platform.url, { authorization: `Bearer ${platform.apiKey}` });
  const plain = await open(bare.url);
  const base = pathOf(sandbox);
  return [
    ...(await smallFiles({ own, plain, prefix: `${base}/filesystem/%2Fsrv%2Fsmall%2F` })),
    ...(await searchTree(own[0]!, base)),
  ];
}

async function smallFiles(parts: { own: Connection[]; plain: Connection[]; prefix: string }): Promise<Result[]> {
  const { own, plain, prefix } = parts;
  const body = JSON.stringify({ content });
  const write =
    (path: string): Work =>
    (connection, index) =>
      connection.request("PUT", `${path}${index}`, body).then(expectOk);
  const read =
    (path: string): Work =>
    (connection, index) =>
      connection.request("GET", `${path}${index}`).then(expectOk);
  const figures = { write: [] as number[], bareWrite: [] as number[], read: [] as number[], bareRead: [] as number[] };
  for (let round = 0; round < rounds; round++) {
    figures.write.push(await rate(own, write(prefix)));
    figures.bareWrite.push(await rate(plain, write("/")));
    figures.read.push(await rate(own, read(prefix)));
    figures.bareRead.push(await rate(plain, read("/")));
  }
  const result = (name: string, measured: number[], other: number[]): Result => {
    const [rateOwn, rateBare] = [summarize(measured).median, summarize(other).median];
    return {
      name: `${name} of 1 KiB, ${atOnce} at once`,
      unit: "a second",
      measured: { median: rateOwn },
      baseline: { bare_node_median: rateBare },
      goal: "at least 0.1x of a bare Node server, which has no sandbox to go into",
      value: rateOwn / rateBare,
      met: rateOwn / rateBare >= 0.1,
    };
  };
  return [result("writes", figures.write, figures.bareWrite), result("reads", figures.read, figures.bareRead)];
}

async function searchTree(connection: Connection, base: string): Promise<Result[]> {
  const exec = (command: string): Promise<unknown> => {
    const body = JSON.stringify({ command, waitForCompletion: true, timeout: 120 });
    return connection.request("POST", `${base}/process`, body).then(expectOk);
  };
  const get = (path: string): Promise<unknown> => connection.request("GET", `${base}${path}`).then(expectOk);
  await exec(makeTree);
  const compare = async (name: string, ask: () => Promise<unknown>, command: string): Promise<Result> => {
    await ask();
    await exec(command);
    const measured: number[] = [];
    const shell: number[] = [];
    for (let round = 0; round < searches; round++) {
      measured.push(...(await sample(1, ask)));
      shell.push(...(await sample(1, () => exec(command))));
    }
    const [own, other] = [summarize(measured).median, summarize(shell).median];
    return {
      name: `${name} in 20,000 files`,
      unit: "ms",
      measured: { median: own },
      baseline: { exec_median: other },
      goal: `at most the time of \`${command}\` through the API`,
      value: own / other,
      met: own <= other,
    };
  };
  return [
    await compare(
      "finding a name",
      () => get("/filesystem-find/%2Fsrv%2Ftree?patterns=found.txt"),
      "find /srv/tree -type f -name found.txt",
    ),
    await compare(
      "searching contents",
      () => get("/filesystem-content-search/%2Fsrv%2Ftree?query=needle&caseSensitive=true"),
      "grep -rn needle /srv/tree",
    ),
  ];
}
