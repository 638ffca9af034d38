// Servers inside the sandbox through /port/{n}: requests, bodies, headers, hostile answers.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server as HttpServer, type IncomingMessage, type RequestListener } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Server, type Socket } from "node:net";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { after, afterEach, before, suite, test } from "node:test";
import { eventually } from "../eventually.ts";
import { type Answer, TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
const servers: (Server | HttpServer)[] = [];
before(async () => {
  sandbox = await TestSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());
afterEach(() => {
  for (const server of servers.splice(0)) {
    if ("closeAllConnections" in server) server.closeAllConnections();
    server.close();
  }
});

async function listen(server: Server | HttpServer): Promise<number> {
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

const serve = (listener: RequestListener): Promise<number> => listen(createServer(listener));

/** A server that answers every connection with these bytes, whatever it is sent. */
async function answerRaw(bytes: string | Buffer, onSocket?: (socket: Socket) => void): Promise<number> {
  return listen(
    createTcpServer((socket) => {
      socket.on("error", () => undefined);
      socket.once("data", () => socket.end(bytes));
      onSocket?.(socket);
    }),
  );
}

function assertError(answer: Answer, status: number, message: RegExp): void {
  assert.equal(answer.status, status, answer.text);
  assert.match((answer.json as { error: string }).error, message);
  assert.match(answer.headers["server-timing"] as string, /total;dur=/);
}

suite("requests", () => {
  test("method, path, query, headers and body arrive, and the answer comes back", async () => {
    const port = await serve(async (request, response) => {
      const body = (await buffer(request)).toString();
      response.writeHead(207, "Fine", { "x-multi": ["a", "b"], "content-type": "text/x-own" });
      response.end(JSON.stringify({ method: request.method, url: request.url, body, own: request.headers["x-own"] }));
    });
    for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"]) {
      const sent = method === "GET" || method === "OPTIONS" ? {} : { body: `body of ${method}` };
      const headers = {
        "x-own": "1",
        ...(sent.body === undefined ? {} : { "content-length": String(sent.body.length) }),
      };
      const answer = await sandbox.ask(method, `/port/${port}/a%2Fb//c/../d?x=%20&y`, { headers, ...sent });
      assert.equal(answer.status, 207, `${method}: ${answer.text}`);
      assert.deepEqual(JSON.parse(answer.text), {
        method,
        url: "/a%2Fb//c/../d?x=%20&y",
        body: sent.body ?? "",
        own: "1",
      });
      assert.equal(answer.headers["content-type"], "text/x-own");
      assert.equal(answer.headers["x-multi"], "a, b");
      assert.match(answer.headers["server-timing"] as string, /^proxy;dur=[\d.]+, total/);
    }
  });

  test("HEAD and answers without a body pass", async () => {
    const port = await serve((request, response) => {
      if (request.url === "/none") return void response.writeHead(204).end();
      response.writeHead(200, { "content-length": 5 }).end("hello");
    });
    const head = await sandbox.ask("HEAD", `/port/${port}/`);
    assert.deepEqual([head.status, head.headers["content-length"], head.text], [200, "5", ""]);
    assert.equal((await sandbox.ask("GET", `/port/${port}/none`)).status, 204);
  });

  const urls: [string, string][] = [
    ["", "/"],
    ["/", "/"],
    ["?a=b", "/?a=b"],
    ["//x", "//x"],
    ["/x?a=1&bl_preview_token=secret&b=2", "/x?a=1&b=2"],
    ["/x?bl_preview_token=secret", "/x"],
  ];
  for (const [rest, expected] of urls) {
    test(`/port/{n}${rest} asks for ${expected}`, async () => {
      const port = await serve((request, response) => void response.end(request.url));
      assert.equal((await sandbox.ask("GET", `/port/${port}${rest}`)).text, expected);
    });
  }

  test("ports that are none are 400", async () => {
    for (const path of ["/port", "/port/", "/port/0/", "/port/65536/", "/port/x/", "/port/80a/", "/port/-1"]) {
      assertError(await sandbox.ask("GET", path), 400, /\/port\//);
    }
  });

  test("nothing listening is 502 and names the port", async () => {
    const port = await serve(() => undefined);
    await new Promise((resolve) => servers.pop()!.close(resolve));
    assertError(await sandbox.ask("GET", `/port/${port}/`), 502, new RegExp(`port ${port}`));
    assertError(await sandbox.ask("POST", `/port/${port}/`, { body: "x" }), 502, new RegExp(`port ${port}`));
  });

  test("bodies stream both ways at once", async () => {
    const port = await serve((request, response) => {
      response.writeHead(200);
      request.on("data", (chunk: Buffer) => response.write(chunk.toString().toUpperCase()));
      request.on("end", () => response.end("."));
    });
    const body = new Readable({ read: () => undefined });
    body.push("one");
    const response = await sandbox.send({ method: "POST", path: `/port/${port}/` }, body);
    const chunks = response[Symbol.asyncIterator]();
    for (const next of ["two", "three"]) {
      const { value } = (await chunks.next()) as IteratorResult<Buffer>;
      assert.equal(value.toString(), next === "two" ? "ONE" : "TWO");
      body.push(next);
    }
    assert.equal(((await chunks.next()) as IteratorResult<Buffer>).value.toString(), "THREE");
    body.push(null);
    assert.equal(((await chunks.next()) as IteratorResult<Buffer>).value.toString(), ".");
  });

  test("64 MiB pass unchanged to a reader and a writer that stop and go", async () => {
    const bytes = Buffer.alloc(1024 * 1024, "0123456789abcdef");
    const digest = createHash("md5");
    for (let index = 0; index < 64; index += 1) digest.update(bytes);
    const expected = digest.digest("hex");
    const md5Of = async (stream: IncomingMessage): Promise<string> => {
      const hash = createHash("md5");
      for await (const chunk of stream) hash.update(chunk as Buffer);
      return hash.digest("hex");
    };
    const content = (): Readable => Readable.from(Array.from({ length: 64 }, () => bytes));
    const port = await serve(async (request, response) => {
      if (request.method === "GET") return void content().pipe(response);
      response.end(await md5Of(request));
    });
    assert.equal(await md5Of(await sandbox.send({ path: `/port/${port}/` })), expected);
    const posted = await sandbox.ask("POST", `/port/${port}/`, { body: content() });
    assert.equal(posted.text, expected);
  });

  test("a client that leaves ends the request inside", async () => {
    let closed = 0;
    const port = await serve((_request, response) => {
      response.writeHead(200).write("begun");
      response.once("close", () => {
        closed += 1;
      });
    });
    const response = await sandbox.send({ path: `/port/${port}/` });
    await once(response, "data");
    response.destroy();
    await eventually(() => assert.equal(closed, 1));
  });

  test("a connection that its server closed while idle is not noticed", async () => {
    const port = await serve((_request, response) => void response.end("ok"));
    const server = servers.at(-1) as HttpServer;
    for (let round = 0; round < 5; round += 1) {
      assert.equal((await sandbox.ask("GET", `/port/${port}/`)).text, "ok");
      server.closeAllConnections();
      assert.equal((await sandbox.ask("POST", `/port/${port}/`, { body: "x" })).text, "ok");
    }
  });
});

suite("headers", () => {
  async function seen(headers: Record<string, string>): Promise<Record<string, string>> {
    const port = await serve((request, response) => void response.end(JSON.stringify(request.headers)));
    return JSON.parse((await sandbox.ask("GET", `/port/${port}/`, { headers })).text) as Record<string, string>;
  }

  test("credentials for the platform never reach the sandbox", async () => {
    const found = await seen({
      "x-blaxel-authorization": "Bearer secret-1",
      "X-Blaxel-Workspace": "main",
      "x-blaxel-preview-token": "secret-2",
      authorization: "Bearer of the app",
    });
    assert.ok(!JSON.stringify(found).includes("secret"));
    assert.equal(found["x-blaxel-workspace"], undefined);
    assert.equal(found.authorization, "Bearer of the app");
  });

  test("hop-by-hop headers stay on their connection, those that Connection names too", async () => {
    const found = await seen({
      connection: "keep-alive, x-private, host, authorization",
      "x-private": "1",
      "keep-alive": "timeout=99",
      "proxy-authorization": "Basic x",
      te: "trailers",
      authorization: "kept",
      "x-public": "2",
    });
    for (const name of ["x-private", "proxy-authorization", "te"]) assert.equal(found[name], undefined, name);
    assert.deepEqual([found.authorization, found["x-public"]], ["kept", "2"]);
    assert.ok(found.host);
  });

  test("the server learns how it was reached", async () => {
    const found = await seen({
      host: "sbx-a-b.region.example",
      "x-forwarded-for": "192.0.2.7",
      "x-forwarded-proto": "https",
    });
    assert.equal(found.host, "sbx-a-b.region.example");
    assert.equal(found["x-forwarded-host"], "sbx-a-b.region.example");
    assert.equal(found["x-forwarded-for"], "192.0.2.7, 127.0.0.1");
    assert.equal(found["x-forwarded-proto"], "https");
    assert.match(found["x-forwarded-prefix"]!, /^\/port\/\d+$/);
  });

  test("a request whose length can be read in two ways is refused", async () => {
    const port = await serve((_request, response) => void response.end("reached"));
    const socket = connect(sandbox.port, "127.0.0.1");
    socket.write(
      `POST /port/${port}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    );
    const answer = (await buffer(socket)).toString();
    assert.match(answer, /^HTTP\/1\.1 400 /);
    assert.ok(!answer.includes("reached"));
  });
});

suite("hostile answers", () => {
  const broken: [what: string, bytes: string][] = [
    ["no HTTP at all", "hello\r\n\r\n"],
    ["nothing", ""],
    ["a head without an end", "HTTP/1.1 200 OK\r\nx: y"],
    ["both lengths", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"],
    ["two different lengths", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"],
    ["a header of 100 KB", `HTTP/1.1 200 OK\r\nx: ${"y".repeat(100_000)}\r\n\r\n`],
    ["thousands of headers", `HTTP/1.1 200 OK\r\n${"x: y\r\n".repeat(20_000)}\r\n`],
    ["a name that is none", "HTTP/1.1 200 OK\r\nx y: z\r\n\r\n"],
    ["a control character", "HTTP/1.1 200 OK\r\nx: a\u0001b\r\ncontent-length: 0\r\n\r\n"],
    ["an unasked upgrade", "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"],
  ];
  for (const [what, bytes] of broken) {
    test(`${what} is 502`, async () => {
      const port = await answerRaw(bytes);
      assertError(await sandbox.ask("GET", `/port/${port}/`), 502, /inside the sandbox|on port/);
    });
  }

  test("hop-by-hop headers and timings of the server inside are not passed on", async () => {
    const port = await answerRaw(
      "HTTP/1.1 200 OK\r\nconnection: close, x-private\r\nx-private: 1\r\nkeep-alive: x\r\nserver-timing: auth;dur=1\r\n" +
        "proxy-authenticate: x\r\nupgrade: h2c\r\nset-cookie: a=1\r\nset-cookie: b=2\r\ncontent-length: 2\r\n\r\nok",
    );
    const { headers, text } = await sandbox.ask("GET", `/port/${port}/`);
    assert.equal(text, "ok");
    for (const name of ["x-private", "proxy-authenticate", "upgrade"]) assert.equal(headers[name], undefined, name);
    assert.ok(!(headers["server-timing"] as string).includes("auth"));
    assert.deepEqual(headers["set-cookie"], ["a=1", "b=2"]);
  });

  test("an answer that stops short breaks off, and is never completed", async () => {
    const port = await answerRaw("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort");
    const response = await sandbox.send({ path: `/port/${port}/` });
    await assert.rejects(buffer(response));
  });

  test("bytes after an answer are no answer to the next request", async () => {
    let connections = 0;
    const port = await listen(
      createTcpServer((socket) => {
        connections += 1;
        socket.on("error", () => undefined);
        socket.on("data", () => {
          const answer = `HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n${connections}`;
          socket.write(`${answer}HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison`);
        });
      }),
    );
    for (let round = 0; round < 5; round += 1) {
      const { text } = await sandbox.ask("GET", `/port/${port}/`);
      assert.notEqual(text, "poison");
    }
  });
});
