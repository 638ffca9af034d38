// Servers inside that answer, and are gone, while their request is still being sent: the caller gets the answer, over HTTP/1 and HTTP/2.
import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent, createServer as createHttpServer, type IncomingMessage, request } from "node:http";
import { connect, type IncomingHttpHeaders } from "node:http2";
import { type AddressInfo, connect as connectSocket, createServer, type Server } from "node:net";
import type { Writable } from "node:stream";
import { after, before, test } from "node:test";
import { apiKey, HostHarness } from "../host/harness.ts";

let harness: HostHarness;
const agent = new Agent({ keepAlive: true });
before(async () => {
  harness = await HostHarness.start();
  await harness.create("box");
});
after(async () => {
  agent.destroy();
  await harness[Symbol.asyncDispose]();
});

const answer = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nearly";
const piece = Buffer.alloc(64 * 1024);

/** Sends until it is ended. */
function flood(body: Writable): void {
  const send = (): void => {
    for (let count = 0; count < 4 && !body.destroyed && body.write(piece); count++);
  };
  body.on("drain", send).on("error", () => undefined);
  send();
}

type Asked = { status: unknown; text: string };

async function askHttp1(method: string, path: string, connection = "keep-alive", key = apiKey): Promise<Asked> {
  const headers = { authorization: `Bearer ${key}`, "transfer-encoding": "chunked", connection };
  const sent = request({ port: harness.port, host: "127.0.0.1", path, method, agent, headers });
  const answered = once(sent, "response");
  flood(sent);
  const [response] = (await answered) as [IncomingMessage];
  const text = String(Buffer.concat(await response.toArray()));
  sent.destroy();
  return { status: response.statusCode, text };
}

const askHttp1AndClose = (method: string, path: string): Promise<Asked> => askHttp1(method, path, "close");

async function askHttp2(method: string, path: string): Promise<Asked> {
  const session = connect(harness.url);
  try {
    const headers = { ":method": method, ":path": path, authorization: `Bearer ${apiKey}` };
    const stream = session.request(headers, { endStream: false });
    const answered = once(stream, "response");
    flood(stream);
    const [head] = (await answered) as [IncomingHttpHeaders];
    let text = "";
    stream.on("data", (chunk: Buffer) => {
      text += chunk;
    });
    await once(stream, "end");
    return { status: head[":status"], text };
  } finally {
    session.destroy();
  }
}

const servers: [what: string, make: () => Server][] = [
  ["reads nothing more", () => createHttpServer((_request, response) => void response.end("early"))],
  [
    "closes with bytes unread",
    () =>
      createServer((socket) => {
        socket.on("error", () => undefined);
        socket.once("data", () => socket.pause().end(answer, () => socket.destroy()));
      }),
  ],
];
for (const [what, make] of servers) {
  test(`the answer of a server that ${what} reaches callers who are still sending`, async () => {
    const server = make().listen(0, "127.0.0.1");
    await once(server, "listening");
    try {
      const path = `/run/main/sandboxes/box/port/${(server.address() as AddressInfo).port}/x`;
      for (const ask of [askHttp1, askHttp1AndClose, askHttp2]) {
        for (const method of ["GET", "POST"]) {
          for (let count = 0; count < 10; count++) {
            assert.deepEqual(await ask(method, path), { status: 200, text: "early" }, `${ask.name} ${method}`);
          }
        }
      }
    } finally {
      server.close();
    }
  });
}

test("callers who say that they will close get to see a refusal while they are sending", async () => {
  for (let count = 0; count < 30; count++) {
    assert.equal((await askHttp1("POST", "/run/main/sandboxes/box/x", "close", "wrong")).status, 401);
  }
});

test("what is no request is refused where a caller who is still sending sees it", async () => {
  for (let count = 0; count < 10; count++) {
    const caller = connectSocket({ port: harness.port, host: "127.0.0.1", allowHalfOpen: true });
    let received = "";
    caller.on("data", (bytes) => {
      received += bytes;
    });
    caller.write("no request\r\n\r\n");
    flood(caller);
    await Promise.race([once(caller, "end"), once(caller, "close")]);
    caller.destroy();
    assert.match(received, /^HTTP\/1\.1 400 [\s\S]*not a valid HTTP request/);
  }
});

test("what a caller still sends after that is read for a while only", async () => {
  await using bounded = await HostHarness.start({ lateBodyMs: 200 });
  await bounded.create("box");
  const server = createHttpServer((_request, response) => void response.end("early")).listen(0, "127.0.0.1");
  await once(server, "listening");
  const caller = connectSocket(bounded.port, "127.0.0.1");
  const drip = setInterval(() => caller.write("1\r\nx\r\n"), 20);
  try {
    let received = "";
    caller
      .on("error", () => undefined)
      .on("data", (chunk) => {
        received += chunk;
      });
    const closed = new Promise((resolve, reject) => {
      caller.once("close", resolve);
      setTimeout(() => reject(new Error("the body is still read")), 60_000).unref();
    });
    const path = `/run/main/sandboxes/box/port/${(server.address() as AddressInfo).port}/x`;
    caller.write(
      `POST ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${apiKey}\r\ntransfer-encoding: chunked\r\n\r\n`,
    );
    await closed;
    assert.match(received, /^HTTP\/1\.1 200 [\s\S]*early/);
  } finally {
    clearInterval(drip);
    caller.destroy();
    server.close();
    server.closeAllConnections();
  }
});
