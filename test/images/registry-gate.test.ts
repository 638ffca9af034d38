// The way out of a pull's jail: whom it lets through, whom it refuses, and when it has had enough.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer as createHttpServer, type Server as HttpServer, request as httpRequest } from "node:http";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, type TestContext, test } from "node:test";
import { type GateOptions, openRegistryGate, type RegistryGate } from "../../src/host/images/registry-gate.ts";

let dir: string;
let gates = 0;

before(async () => {
  dir = await mkdtemp(join(tmpdir(), "catnap-gate-"));
});
after(() => rm(dir, { recursive: true }));

async function withGate(
  options: Partial<GateOptions>,
  use: (gate: RegistryGate, socketPath: string) => Promise<void>,
): Promise<void> {
  gates += 1;
  const socketPath = join(dir, `gate-${gates}.sock`);
  await using gate = await openRegistryGate({
    socketPath,
    insecureRegistries: [],
    receivedMaxBytes: 1_000_000,
    ...options,
  });
  await use(gate, socketPath);
}

/** Listens until the test that asked for it has ended. */
function listen(t: TestContext, server: Server | HttpServer): Promise<number> {
  t.after(() => server.close());
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port)));
}

/** Sends raw text to the gate and returns all it answers until it closes or `until` appears. */
function exchange(socketPath: string, text: string, until?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(socketPath);
    let answer = "";
    socket.setEncoding("latin1").on("data", (chunk: string) => {
      answer += chunk;
      if (until !== undefined && answer.includes(until)) socket.destroy();
    });
    socket.on("close", () => resolve(answer)).on("error", reject);
    socket.write(text);
  });
}

describe("a tunnel", () => {
  for (const [host, address] of [
    ["metadata.example", "169.254.169.254"],
    ["inner.example", "10.0.0.5"],
    ["loopback.example", "127.0.0.1"],
    ["mapped.example", "::ffff:127.0.0.1"],
  ]) {
    test(`to a name that leads to ${address} is refused`, () =>
      withGate({ lookupAddresses: async () => [{ address: address!, family: 4 }] }, async (gate, socketPath) => {
        assert.match(await exchange(socketPath, `CONNECT ${host}:443 HTTP/1.1\r\n\r\n`), /^HTTP\/1.1 403/);
        assert.equal(gate.refusal, "inner_address");
      }));
  }

  test("to an unlisted loopback port never connects", async (t) => {
    let connections = 0;
    const server = createServer((socket) => {
      connections += 1;
      socket.destroy();
    });
    const port = await listen(t, server);
    await withGate({}, async (_, socketPath) => {
      for (const host of ["127.0.0.1", "localhost", "[::1]"]) {
        assert.match(await exchange(socketPath, `CONNECT ${host}:${port} HTTP/1.1\r\n\r\n`), /^HTTP\/1.1 403/);
      }
    });
    assert.equal(connections, 0);
  });

  test("to a listed loopback port carries bytes both ways", async (t) => {
    const server = createServer((socket) => socket.once("data", (chunk) => socket.end(`heard ${chunk}`)));
    const port = await listen(t, server);
    await withGate({ insecureRegistries: [`127.0.0.1:${port}`] }, async (_, socketPath) => {
      const answer = await exchange(socketPath, `CONNECT 127.0.0.1:${port} HTTP/1.1\r\n\r\nhello`);
      assert.match(answer, /^HTTP\/1.1 200 [^\r]*\r\n\r\nheard hello$/);
    });
  });

  test("is cut when more arrives than a pull may receive", async (t) => {
    const server = createServer((socket) => {
      socket.on("error", () => undefined);
      const more = (): void => {
        while (!socket.destroyed && socket.write(Buffer.alloc(65_536))) {}
      };
      socket.on("drain", more);
      more();
    });
    const port = await listen(t, server);
    const options = { insecureRegistries: [`127.0.0.1:${port}`], receivedMaxBytes: 1_000_000 };
    await withGate(options, async (gate, socketPath) => {
      const answer = await exchange(socketPath, `CONNECT 127.0.0.1:${port} HTTP/1.1\r\n\r\n`);
      assert.ok(answer.length < 4_000_000, `${answer.length} bytes came through`);
      assert.equal(gate.refusal, "too_large");
    });
  });

  for (const target of ["", "/", "host", "host:port", "host:1:2", "a b:1", "http://host:1"]) {
    test(`to ${JSON.stringify(target)} is refused as malformed`, () =>
      withGate({}, async (_, socketPath) => {
        assert.match(await exchange(socketPath, `CONNECT ${target} HTTP/1.1\r\n\r\n`), /^HTTP\/1.1 400/);
      }));
  }
});

describe("plain HTTP", () => {
  test("reaches a listed registry only", async (t) => {
    const server = createHttpServer((request, response) => response.end(`${request.method} ${request.url}`));
    const port = await listen(t, server);
    const ask = (socketPath: string, path: string): Promise<number | undefined> =>
      new Promise((resolve, reject) => {
        httpRequest({ socketPath, path }, (response) => resolve(response.resume().statusCode))
          .on("error", reject)
          .end();
      });
    await withGate({ insecureRegistries: [`127.0.0.1:${port}`] }, async (gate, socketPath) => {
      assert.equal(await ask(socketPath, `http://127.0.0.1:${port}/v2/`), 200);
      assert.equal(gate.refusal, undefined);
      assert.equal(await ask(socketPath, "http://registry.example/v2/"), 403);
      assert.equal(await ask(socketPath, "/v2/"), 403);
      assert.equal(gate.refusal, "plain_http");
    });
  });
});
