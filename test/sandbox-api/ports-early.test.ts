// Requests with a body to servers inside: their head arrives at once, answers come while bodies are sent, nothing is read faster than it is taken.
import assert from "node:assert/strict";
import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  request as sendRequest,
} from "node:http";
import {
  type AddressInfo,
  connect,
  createServer as createTcpServer,
  type Socket,
  type Server as TcpServer,
} from "node:net";
import { after, afterEach, before, suite, test } from "node:test";
import { eventually } from "../eventually.ts";
import { TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
const closing: (() => void)[] = [];
before(async () => {
  sandbox = await TestSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());
afterEach(() => {
  for (const close of closing.splice(0).reverse()) close();
});

async function listen(server: Server | TcpServer): Promise<number> {
  closing.push(() => {
    if ("closeAllConnections" in server) server.closeAllConnections();
    server.close();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

const serve = (listener: RequestListener): Promise<number> => listen(createServer(listener));

/** A server that keeps what it is sent, and each of its connections. */
async function record(): Promise<{ port: number; sockets: Socket[]; received: () => string }> {
  const sockets: Socket[] = [];
  let received = "";
  const port = await listen(
    createTcpServer((socket) => {
      closing.push(() => socket.destroy());
      sockets.push(socket);
      socket
        .on("error", () => undefined)
        .on("data", (bytes) => {
          received += bytes.toString("latin1");
        });
    }),
  );
  return { port, sockets, received: () => received };
}

/** A caller who writes byte by byte. */
function call(): { socket: Socket; received: () => string } {
  const socket = connect(sandbox.port, "127.0.0.1");
  closing.push(() => socket.destroy());
  let received = "";
  socket
    .on("error", () => undefined)
    .on("data", (bytes) => {
      received += bytes.toString("latin1");
    });
  return { socket, received: () => received };
}

const head = (port: number, ...lines: string[]): string =>
  [`POST /port/${port}/x HTTP/1.1`, "host: x", ...lines]
    .map((line) => `${line}\r\n`)
    .join("")
    .concat("\r\n");

suite("heads", () => {
  for (const framing of ["transfer-encoding: chunked", "content-length: 5"]) {
    test(`a head with ${framing} arrives before its body, and is answered before it`, async () => {
      const port = await serve((request, response) => {
        response.writeHead(401, { "content-length": 2 }).end("no");
        request.resume();
      });
      const { socket, received } = call();
      socket.write(head(port, framing));
      await eventually(() => assert.match(received(), /^HTTP\/1\.1 401 [\s\S]*\r\n\r\nno$/));
    });
  }

  test("an answer goes on while the body of its request does", async () => {
    const port = await serve((request, response) => {
      response.write("ready.");
      request.on("data", (bytes: Buffer) => response.write(bytes.toString().toUpperCase()));
      request.on("end", () => response.end("over"));
    });
    const { socket, received } = call();
    socket.write(head(port, "transfer-encoding: chunked"));
    await eventually(() => assert.match(received(), /ready\./));
    socket.write("1\r\na\r\n");
    await eventually(() => assert.match(received(), /ready\.[\s\S]*A/));
    socket.write("1\r\nb\r\n0\r\n\r\n");
    await eventually(() => assert.match(received(), /B[\s\S]*over/));
  });

  test("a body of no stated length stays one, a stated length is kept, and nothing has a length of zero where servers want one", async () => {
    const { port, sockets, received } = await record();
    const cases: [sent: string, seen: RegExp][] = [
      [
        `${head(port, "transfer-encoding: chunked")}3\r\nabc\r\n0\r\n\r\n`,
        /transfer-encoding: chunked\r\n[\s\S]*\r\n\r\n3\r\nabc\r\n0\r\n\r\n$/,
      ],
      [`${head(port, "content-length: 3")}abc`, /content-length: 3\r\n[\s\S]*\r\n\r\nabc$/],
      [head(port), /content-length: 0\r\n[\s\S]*\r\n\r\n$/],
    ];
    for (const [sent, seen] of cases) {
      const { socket } = call();
      const before = received().length;
      socket.write(sent);
      await eventually(() => assert.match(received().slice(before), seen));
      sockets.at(-1)!.destroy();
    }
  });

  test("a body that breaks off is not completed", async () => {
    const { port, sockets, received } = await record();
    const { socket } = call();
    socket.write(`${head(port, "transfer-encoding: chunked")}3\r\nabc\r\n`);
    await eventually(() => assert.match(received(), /abc/));
    const ended = once(sockets[0]!, "end");
    socket.destroy();
    await ended;
    assert.doesNotMatch(received(), /\r\n0\r\n/);
  });
});

suite("Expect: 100-continue", () => {
  test("is the server's to answer: it refuses before the body is sent", async () => {
    const server = createServer();
    server.on("checkContinue", (_request, response) => void response.writeHead(413, { "content-length": 0 }).end());
    const port = await listen(server);
    const sent = sendRequest({
      ...{ port: sandbox.port, host: "127.0.0.1", method: "POST", path: `/port/${port}/` },
      headers: { expect: "100-continue", "content-length": 5 },
    });
    sent.on("error", () => undefined);
    closing.push(() => sent.destroy());
    sent.flushHeaders();
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    assert.equal(response.statusCode, 413);
  });

  test("a server that says nothing to it gets the body all the same", async () => {
    const { port, received } = await record();
    const { socket } = call();
    socket.write(head(port, "expect: 100-continue", "content-length: 5"));
    await eventually(() => assert.match(received(), /expect: 100-continue/i));
    socket.write("hello");
    await eventually(() => assert.match(received(), /hello$/));
  });
});

suite("back-pressure", () => {
  const piece = Buffer.alloc(64 * 1024);
  const limit = 16 * 1024 * 1024;

  test("a body is not read faster than its server takes it", async () => {
    const { port, sockets } = await record();
    const { socket } = call();
    socket.write(head(port, "transfer-encoding: chunked"));
    await eventually(() => assert.equal(sockets.length, 1));
    sockets[0]!.pause();
    let written = 0;
    const send = (): void => {
      for (let isTaken = true; isTaken && written < limit; written += piece.length) {
        isTaken = socket.write(`10000\r\n${piece.toString("latin1")}\r\n`);
      }
    };
    socket.on("drain", send);
    send();
    let before = -1;
    await eventually(
      () => {
        const isStill = before === written;
        before = written;
        assert.ok(isStill);
      },
      { intervalMs: 300 },
    );
    assert.ok(written < limit, `${written} bytes are held somewhere`);
    sockets[0]!.resume();
    await eventually(() => assert.ok(written >= limit));
  });

  test("an answer is not read faster than its caller takes it", async () => {
    let written = 0;
    const port = await serve((_request, response) => {
      const send = (): void => {
        for (let isTaken = true; isTaken && written < limit; written += piece.length) isTaken = response.write(piece);
        if (written >= limit) response.end();
      };
      response.on("drain", send);
      send();
    });
    const { socket } = call();
    socket.pause();
    socket.write(head(port, "content-length: 0"));
    let before = -1;
    await eventually(
      () => {
        const isStill = before === written && written > 0;
        before = written;
        assert.ok(isStill);
      },
      { intervalMs: 300 },
    );
    assert.ok(written < limit, `${written} bytes are held somewhere`);
    socket.resume();
    await eventually(() => assert.ok(written >= limit));
  });
});

suite("trailers", () => {
  test("pass both ways, but for those that would say who asks, for whom and how much", async () => {
    let trailers: NodeJS.Dict<string> = {};
    const port = await serve(async (request, response) => {
      await request.toArray();
      trailers = request.trailers;
      response.writeHead(200, { trailer: "x-sum" });
      response.addTrailers([
        ["x-sum", "2"],
        ["content-type", "text/html"],
        ["server-timing", "x"],
      ]);
      response.end("ok");
    });
    const { socket, received } = call();
    const sent = ["x-sum: 1", "authorization: x", "x-blaxel-authorization: y", "x-forwarded-for: z", "host: h"];
    socket.write(`${head(port, "transfer-encoding: chunked")}1\r\na\r\n0\r\n${sent.join("\r\n")}\r\n\r\n`);
    await eventually(() => assert.match(received(), /2\r\nok\r\n0\r\n/));
    await eventually(() => assert.match(received(), /\r\n\r\n$/));
    assert.deepEqual({ ...trailers }, { "x-sum": "1" });
    assert.match(received(), /2\r\nok\r\n0\r\nx-sum: 2\r\n\r\n$/);
  });
});
