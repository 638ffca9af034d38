// Byte streams to ports inside: everything arrives both ways, and each direction ends on its own.
import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent, createServer as createHttpServer, get, type IncomingMessage } from "node:http";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { buffer, text } from "node:stream/consumers";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { startGuest } from "./start-guest.ts";

async function listen(server: Server, host = "127.0.0.1"): Promise<number> {
  server.listen(0, host);
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

test("a large stream comes back unchanged, however slowly either side reads", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const server = createServer((socket) => socket.pipe(socket));
  const port = await listen(server);
  const content = Buffer.from(Array.from({ length: 20_000_000 }, (_, index) => (index * 31) % 247));
  const stream = await connection.connect(port);
  stream.end(content);
  assert.ok((await buffer(stream)).equals(content));
  server.close();
});

test("the server hears the end of the request and still answers", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const server = createServer({ allowHalfOpen: true }, async (socket) => {
    const request = await text(socket);
    socket.end(`${request} heard`);
  });
  const stream = await connection.connect(await listen(server));
  stream.end("question");
  assert.equal(await text(stream), "question heard");
  server.close();
});

test("the client hears the end of the server and can still send", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const received = Promise.withResolvers<string>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.end("greeting");
    text(socket).then(received.resolve, received.reject);
  });
  const stream = await connection.connect(await listen(server));
  assert.equal(await text(stream), "greeting");
  stream.end("late");
  assert.equal(await received.promise, "late");
  server.close();
});

test("a server that speaks first is heard from its first byte", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const server = createServer((socket) => socket.end("220 first"));
  const port = await listen(server);
  for (let round = 0; round < 50; round++) assert.equal(await text(await connection.connect(port)), "220 first");
  server.close();
});

test("a port is found on the IPv6 loopback too", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const server = createServer((socket) => socket.end("six"));
  const port = await listen(server, "::1");
  assert.equal(await text(await connection.connect(port)), "six");
  server.close();
});

test("a port nobody listens on is upstream_failed", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const server = createServer();
  const port = await listen(server);
  server.close();
  await once(server, "close");
  await assert.rejects(connection.connect(port), { code: "upstream_failed", details: { errno: "ECONNREFUSED" } });
  for (const invalid of [0, -1, 65_536, 1.5]) {
    await assert.rejects(connection.connect(invalid), { code: "invalid_request" });
  }
});

test("when either side goes away the other is told", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const accepted: Socket[] = [];
  const server = createServer((socket) => {
    accepted.push(socket);
    socket.on("error", () => undefined).resume();
  });
  const port = await listen(server);
  const first = await connection.connect(port);
  await eventually(() => assert.equal(accepted.length, 1));
  const closed = once(accepted[0]!, "close");
  first.destroy();
  await closed;
  const second = await connection.connect(port);
  await eventually(() => assert.equal(accepted.length, 2));
  const ended = once(second.resume(), "end");
  accepted[1]!.resetAndDestroy();
  await ended;
  second.destroy();
  server.close();
});

test("Node's HTTP client works over it", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const server = createHttpServer((request, response) => response.end(`you asked for ${request.url}`));
  const port = await listen(server);
  for (let round = 0; round < 3; round++) {
    const socket = await connection.connect(port);
    const agent = new Agent();
    agent.createConnection = () => socket;
    const request = get({ agent, path: `/${round}`, headers: { connection: "close" } });
    const [response] = (await once(request, "response")) as [IncomingMessage];
    assert.equal(await text(response), `you asked for /${round}`);
  }
  server.close();
});

test("200 tunnels at once each carry their own bytes", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const server = createServer((socket) => socket.pipe(socket));
  const port = await listen(server);
  const streams = await Promise.all(Array.from({ length: 200 }, () => connection.connect(port)));
  const answers = await Promise.all(
    streams.map((stream, index) => {
      stream.end(`stream ${index}`);
      return text(stream);
    }),
  );
  assert.deepEqual(
    answers,
    streams.map((_, index) => `stream ${index}`),
  );
  server.close();
});

test("a server on the sandbox's own address alone is found there", async () => {
  const script =
    'ip link set lo up && ip link add eth0 type veth peer name peer0 && ip address add 10.99.0.1/24 dev eth0 && ip link set eth0 up && exec "$0"';
  await using guest = await startGuest({ under: ["unshare", "--net", "sh", "-c", script] });
  await using connection = await guest.open();
  const server = `import socket
server = socket.create_server(("10.99.0.1", 8080))
print("listening", flush=True)
while True:
    client, address = server.accept()
    client.sendall(b"from %s" % address[0].encode())
    client.close()`;
  const environment = { PATH: process.env.PATH ?? "" };
  await connection.spawn({ token: "server", argv: ["python3", "-c", server], workingDir: "/", environment });
  const stream = await eventually(() => connection.connect(8080));
  assert.equal(await text(stream), "from 10.99.0.1");
  await assert.rejects(connection.connect(8081), { code: "upstream_failed", details: { errno: "ECONNREFUSED" } });
});
