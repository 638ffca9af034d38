// Reading a resource: `GET /v0/sandboxes/{name}` against a bare node:http server that answers JSON of the same size.
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { Connection, expectOk } from "../http-client.ts";
import type { Result } from "../report.ts";
import { createSandbox } from "./fleet.ts";

const connections = 16;
const roundMs = 3_000;
const rounds = 4;

async function requestsPerSecond(origin: string, path: string, headers: Record<string, string>): Promise<number> {
  const opened = await Promise.all(Array.from({ length: connections }, () => Connection.open(origin, headers)));
  const startedAt = performance.now();
  let answered = 0;
  await Promise.all(
    opened.map(async (connection) => {
      while (performance.now() - startedAt < roundMs) {
        expectOk(await connection.request("GET", path));
        answered++;
      }
    }),
  );
  for (const connection of opened) connection[Symbol.dispose]();
  return answered / ((performance.now() - startedAt) / 1000);
}

export async function benchGet(): Promise<Result[]> {
  await using platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "60s", CATNAP_REQUESTS_PER_SECOND: "1000000" });
  const sandbox = await createSandbox(platform, { name: "looked-at" });
  const path = `/v0/sandboxes/${sandbox.metadata.name}`;
  const headers = { authorization: `Bearer ${platform.apiKey}` };
  const body = JSON.stringify(await platform.call("GET", path));
  const bare = fork(fileURLToPath(new URL("../bare-json-server.ts", import.meta.url)), [body]);
  try {
    const [{ url }] = (await once(bare, "message")) as [{ url: string }];
    const own: number[] = [];
    const other: number[] = [];
    for (let round = 0; round < rounds; round++) {
      other.push(await requestsPerSecond(url, path, headers));
      own.push(await requestsPerSecond(platform.url, path, headers));
    }
    // The first round warms both up; of the rest the best is least disturbed by the machine's other work.
    const ownBest = Math.max(...own.slice(1));
    const otherBest = Math.max(...other.slice(1));
    return [
      {
        name: "GET /v0/sandboxes/{name}",
        unit: "requests/s",
        measured: { best: ownBest },
        baseline: { bare_node_http: otherBest },
        goal: "at least 0.5x of a bare node:http server",
        value: ownBest / otherBest,
        met: ownBest / otherBest >= 0.5,
      },
    ];
  } finally {
    bare.kill();
    await once(bare, "exit");
  }
}
