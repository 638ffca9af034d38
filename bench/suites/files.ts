// Small files: 1 KiB written and read sixteen at once against a bare Node server.
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
import { summarize } from "../stats.ts";
import { createSandbox, pathOf } from "./fleet.ts";

const atOnce = 16;
const perRound = 640;
const rounds = 5;
const content = "x".repeat(1024);
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
  return await smallFiles({ own, plain, prefix: `${base}/filesystem/%2Fsrv%2Fsmall%2F` });
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
      goal: "at least 0.2x of a bare Node server, which has no sandbox to go into",
      value: rateOwn / rateBare,
      met: rateOwn / rateBare >= 0.2,
    };
  };
  return [result("writes", figures.write, figures.bareWrite), result("reads", figures.read, figures.bareRead)];
}
