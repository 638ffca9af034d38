// Many commands at once: a hundred runs of `true` on one and on ten sandboxes against a bare Node server that spawns them.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { Connection, expectOk } from "../http-client.ts";
import type { Result } from "../report.ts";
import { sample, summarize } from "../stats.ts";
import { createSandbox, pathOf } from "./fleet.ts";

const atOnce = 100;
const rounds = 7;
const spread = 10;

/** What the API does, without a sandbox: the command through a shell, its output and exit code as JSON. */
async function startBareServer(): Promise<AsyncDisposable & { url: string }> {
  const server = createServer((_incoming, response) => {
    const child = spawn("/bin/sh", ["-c", "true"], { stdio: ["ignore", "pipe", "pipe"] });
    const pieces: Buffer[] = [];
    child.stdout.on("data", (piece: Buffer) => pieces.push(piece));
    child.stderr.on("data", (piece: Buffer) => pieces.push(piece));
    child.once("close", (exitCode) => {
      const body = JSON.stringify({ exitCode, stdout: Buffer.concat(pieces).toString() });
      response.writeHead(200, { "content-length": Buffer.byteLength(body) }).end(body);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export async function benchParallel(): Promise<Result[]> {
  await using platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "60s" });
  await using bare = await startBareServer();
  const paths: string[] = [];
  for (let index = 0; index < spread; index++) {
    paths.push(`${pathOf(await createSandbox(platform, { memoryMb: 4096 }))}/process`);
  }
  const headers = { authorization: `Bearer ${platform.apiKey}` };
  const open = (url: string) => Promise.all(Array.from({ length: atOnce }, () => Connection.open(url, headers)));
  const own = await open(platform.url);
  const others = await open(bare.url);
  const body = JSON.stringify({ command: "true", waitForCompletion: true });
  const all = (connections: Connection[], pathAt: (index: number) => string) => () =>
    Promise.all(connections.map((connection, index) => connection.request("POST", pathAt(index), body).then(expectOk)));
  const work = {
    bare: all(others, () => "/"),
    one: all(own, () => paths[0]!),
    ten: all(own, (index) => paths[index % spread]!),
  };
  const samples: Record<keyof typeof work, number[]> = { bare: [], one: [], ten: [] };
  for (const run of Object.values(work)) await run();
  for (let round = 0; round < rounds; round++) {
    for (const name of ["bare", "one", "ten"] as const) samples[name].push(...(await sample(1, work[name])));
  }
  for (const connection of [...own, ...others]) connection[Symbol.dispose]();
  const direct = summarize(samples.bare);
  const result = (name: string, taken: number[]): Result => {
    const { median, max } = summarize(taken);
    const ratio = median / direct.median;
    return {
      name,
      unit: "ms",
      measured: { median, max },
      baseline: { bare_server_median: direct.median, bare_server_max: direct.max },
      goal: "at most 2x a bare Node server that spawns",
      value: ratio,
      met: ratio <= 2,
    };
  };
  return [
    result(`${atOnce} runs at once on one sandbox`, samples.one),
    result(`${atOnce} runs at once on ${spread} sandboxes`, samples.ten),
  ];
}
