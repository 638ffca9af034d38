// Moving files: 256 MiB up and down through the sandbox API against a bare Node server that writes and reads the same file.
import { createReadStream, createWriteStream, mkdtempSync, rmSync } from "node:fs";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { spawnPlatform } from "../../src/dev/spawn-platform.ts";
import type { Result } from "../report.ts";
import { sample, summarize } from "../stats.ts";
import { createSandbox } from "./fleet.ts";

const sizeBytes = 256 * 1024 * 1024;
const rounds = 5;
const chunk = Buffer.alloc(256 * 1024, 7);
const boundary = "catnap-bench";
const head = `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="f.bin"\r\ncontent-type: application/octet-stream\r\n\r\n`;
const tail = `\r\n--${boundary}--\r\n`;

function* content(): Generator<Buffer> {
  for (let sent = 0; sent < sizeBytes; sent += chunk.length) yield chunk;
}

function* form(): Generator<Buffer> {
  yield Buffer.from(head);
  yield* content();
  yield Buffer.from(tail);
}

function upload(url: string, headers: Record<string, string | number>, body: Iterable<Buffer>): Promise<void> {
  return new Promise((resolve, reject) => {
    const sending = request(url, { method: "PUT", headers }, (response) => {
      response
        .resume()
        .on("end", () =>
          response.statusCode === 200 ? resolve() : reject(new Error(`status ${response.statusCode}`)),
        );
    });
    sending.on("error", reject);
    pipeline(Readable.from(body, { objectMode: false, highWaterMark: chunk.length }), sending).catch(reject);
  });
}

function download(url: string, headers: Record<string, string>): Promise<void> {
  return new Promise((resolve, reject) => {
    const asking = request(url, { headers }, (response) => {
      let received = 0;
      response.on("data", (part: Buffer) => {
        received += part.length;
      });
      response.on("end", () => (received === sizeBytes ? resolve() : reject(new Error(`received ${received} bytes`))));
      response.on("error", reject);
    });
    asking.on("error", reject).end();
  });
}

/** A Node server with nothing between socket and file. */
async function startBareServer(): Promise<AsyncDisposable & { url: string }> {
  const dir = mkdtempSync(join(tmpdir(), "catnap-bare-"));
  const file = join(dir, "f.bin");
  const server = createServer((incoming, response) => {
    if (incoming.method === "PUT") {
      pipeline(incoming, createWriteStream(file)).then(
        () => response.end(),
        () => response.destroy(),
      );
    } else {
      response.writeHead(200, { "content-length": sizeBytes });
      pipeline(createReadStream(file), response).catch(() => response.destroy());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/f.bin`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export async function benchTransfer(): Promise<Result[]> {
  await using platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "60s" });
  // The size a sandbox has when nobody says otherwise.
  const sandbox = await createSandbox(platform, { memoryMb: 4096 });
  const authorization = `Bearer ${platform.apiKey}`;
  const url = `${sandbox.metadata.url}/filesystem/%2Froot%2Ff.bin`;
  const formHeaders = {
    authorization,
    "content-type": `multipart/form-data; boundary=${boundary}`,
    "content-length": head.length + sizeBytes + tail.length,
  };
  await using bare = await startBareServer();
  const rate = (samples: number[]): number => sizeBytes / 1024 / 1024 / (summarize(samples).median / 1000);
  const up: number[] = [];
  const down: number[] = [];
  const bareUp: number[] = [];
  const bareDown: number[] = [];
  for (let round = 0; round < rounds; round++) {
    bareUp.push(...(await sample(1, () => upload(bare.url, { "content-length": sizeBytes }, content()))));
    up.push(...(await sample(1, () => upload(url, formHeaders, form()))));
    bareDown.push(...(await sample(1, () => download(bare.url, {}))));
    down.push(...(await sample(1, () => download(url, { authorization, accept: "application/octet-stream" }))));
  }
  const result = (name: string, own: number[], other: number[]): Result => ({
    name,
    unit: "MiB/s",
    measured: { median: rate(own) },
    baseline: { median: rate(other) },
    goal: "at least 0.6x of a bare Node server",
    value: rate(own) / rate(other),
    met: rate(own) / rate(other) >= 0.6,
  });
  return [result("256 MiB upload", up, bareUp), result("256 MiB download", down, bareDown)];
}
