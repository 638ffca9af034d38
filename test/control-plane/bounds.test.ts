// What a caller may send and how slowly: bodies, targets, heads and connections in bounds, seen over raw sockets.
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { listenerLimits, openListener } from "../../src/dev/listener.ts";
import { inTime } from "../eventually.ts";
import { type Server, startServer } from "./harness.ts";
import { addPerson } from "./people.ts";

type Raw = { socket: Socket; text: () => string; ended: Promise<void> };

function open(url: string): Raw {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  let text = "";
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1");
  });
  socket.on("error", () => undefined);
  const ended = once(socket, "close").then(() => undefined);
  return { socket, text: () => text, ended };
}

function head({ apiKey }: Pick<Server, "apiKey">, length: number, path = "/v0/workspaces"): string {
  return `POST ${path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${apiKey}\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;
}

/** With a body that has arrived before the server's time for bodies is over. */
function createInTime(server: Server, timeMs: number): Promise<void> {
  const attempt = async (): Promise<void> => assert.equal((await server.create({ name: "quick" })).status, 200);
  return inTime(timeMs, { attempt, again: async () => undefined });
}

test("a body that trickles is answered 408 and its connection closed; nothing is done", async () => {
  await using server = await startServer({ settings: { CATNAP_BODY_TIMEOUT: "100ms" } });
  const body = JSON.stringify({ name: "slow" });
  const raw = open(server.url);
  // Far more than arrives before the time is over, however late that is noticed.
  raw.socket.write(head(server, 100_000) + body.slice(0, 10));
  const trickle = setInterval(() => raw.socket.write(" "), 20);
  await raw.ended.finally(() => clearInterval(trickle));
  assert.match(raw.text(), /^HTTP\/1\.1 408 /);
  assert.match(raw.text(), /connection: close/i);
  assert.match(
    raw.text(),
    /\{"error":"request_timeout","code":408,"message":"The body did not arrive within 0\.1 seconds\."\}/,
  );
  assert.equal((await server.call("GET", "/v0/workspaces/slow")).status, 404);
  await createInTime(server, 100);
});

test("a key that is revoked while a body arrives does nothing with it", async () => {
  await using server = await startServer();
  const mia = await addPerson(server, "mia", { role: "admin" });
  const body = JSON.stringify({ name: "late" });
  const raw = ["/v0/workspaces", "/v0/profile/api_keys", "/v0/sandboxes"].map((path) => ({
    path,
    ...open(server.url),
  }));
  for (const { path, socket } of raw) {
    socket.write(head({ apiKey: mia.apiKey }, body.length, path).replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n"));
    socket.write(body.slice(0, 5));
  }
  // Behind all of them on the same server: they have been let in by then.
  assert.equal((await server.call("GET", "/v0/profile/api_keys", { key: mia.apiKey })).body.length, 1);
  assert.equal((await server.call("DELETE", `/v0/profile/api_keys/${mia.keyId}`, { key: mia.apiKey })).status, 200);
  for (const { socket } of raw) socket.write(body.slice(5));
  await Promise.all(raw.map(({ ended }) => ended));
  for (const { text, path } of raw) assert.match(text(), /^HTTP\/1\.1 401 /, path);
  assert.deepEqual(await server.query("select id from api_keys where user_id = ?", mia.id), []);
  assert.equal((await server.call("GET", "/v0/workspaces/late")).status, 404);
});

test("fifty trickling bodies hold up nobody, and a body that breaks off is let go", async () => {
  await using server = await startServer({ settings: { CATNAP_BODY_TIMEOUT: "300ms" } });
  const slow = Array.from({ length: 50 }, () => open(server.url));
  for (const { socket } of slow) socket.write(`${head(server, 100)}{`);
  await createInTime(server, 300);
  slow[0]!.socket.destroy();
  await Promise.all(slow.map(({ ended }) => ended));
  const others = slow.slice(1);
  assert.equal(others.filter((raw) => raw.text().startsWith("HTTP/1.1 408 ")).length, 49);
});

test("who has no credential is told so before any of the body is read", async () => {
  await using server = await startServer();
  const raw = open(server.url);
  raw.socket.write(
    "POST /v0/sandboxes HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n",
  );
  await once(raw.socket, "data");
  assert.match(raw.text(), /^HTTP\/1\.1 401 /);
  raw.socket.destroy();
  await raw.ended;
});

test("a body beyond the limit is 413, whether its length is announced or not", async () => {
  await using server = await startServer({ config: { bodyMaxBytes: 1_000 } });
  const bodyOf = (length: number) => `{"name":"lab","x":"${"a".repeat(length - 21)}"}`;
  const send = (rawBody: string) =>
    server.call("POST", "/v0/workspaces", { rawBody, headers: { "content-type": "application/json" } });
  assert.equal(bodyOf(1_000).length, 1_000);
  assert.equal((await send(bodyOf(1_000))).status, 200);
  const answer = await send(bodyOf(1_001));
  assert.deepEqual(answer.body, { error: "too_large", code: 413, message: answer.body.message });
  const raw = open(server.url);
  const chunked = head(server, 0).replace("content-length: 0", "transfer-encoding: chunked");
  raw.socket.write(`${chunked}800\r\n${"a".repeat(2_048)}\r\n`);
  await once(raw.socket, "data");
  assert.match(raw.text(), /^HTTP\/1\.1 413 /);
  raw.socket.destroy();
});

test("a target beyond the limit is 414, and a head beyond the parser's 431", async () => {
  await using server = await startServer();
  const path = (length: number) => `/v0/sandboxes?q=${"a".repeat(length - 16)}`;
  assert.equal((await server.call("GET", path(8_192))).status, 400);
  const long = await server.call("GET", path(8_193));
  assert.deepEqual([long.status, long.body.error, long.body.code], [414, "target_too_long", 414]);
  const many = Array.from({ length: 2_000 }, (_, index) => `a${index}=1`)
    .join("&")
    .slice(0, 8_000);
  assert.equal((await server.call("GET", `/v0/workspaces?${many}`)).status, 200);
  await using listener = await openListener("127.0.0.1:0");
  const raw = open(listener.origin);
  raw.socket.write(`GET /v0/x HTTP/1.1\r\nhost: a\r\nx: ${"a".repeat(20_000)}\r\n\r\n`);
  await raw.ended;
  assert.match(raw.text(), /^HTTP\/1\.1 431 /);
  assert.match(raw.text(), /\{"error":"headers_too_large","code":431,"message":"[^"]+"\}$/);
});

test("a head that trickles is answered 408", async () => {
  await using listener = await openListener("127.0.0.1:0", { ...listenerLimits, headersTimeoutMs: 200 });
  const raw = open(listener.origin);
  raw.socket.write("GET /v0/x HTTP/1.1\r\nhost: a\r\n");
  await raw.ended;
  assert.match(raw.text(), /^HTTP\/1\.1 408 /);
  assert.match(raw.text(), /"error":"request_timeout","code":408/);
});

test("connections beyond the limit are closed, and room that gets free is used", async () => {
  await using listener = await openListener("127.0.0.1:0", { ...listenerLimits, connectionsMax: 3 });
  listener.serve({
    controlPlane: (_request, response) => response.end("here"),
    edge: {
      owns: () => false,
      handle: (_request, response) => response.end(),
      upgrade: (_, socket) => socket.destroy(),
    },
  });
  const ask = (raw: Raw) => raw.socket.write("GET /v0/x HTTP/1.1\r\nhost: a\r\n\r\n");
  const kept = [open(listener.origin), open(listener.origin), open(listener.origin)];
  for (const raw of kept) {
    ask(raw);
    await once(raw.socket, "data");
  }
  const refused = open(listener.origin);
  await refused.ended;
  assert.equal(refused.text(), "");
  kept[0]!.socket.destroy();
  await kept[0]!.ended;
  for (let attempt = 0; attempt < 100; attempt++) {
    const raw = open(listener.origin);
    ask(raw);
    await Promise.race([raw.ended, once(raw.socket, "data")]);
    raw.socket.destroy();
    if (raw.text().endsWith("here")) return;
  }
  assert.fail("room that got free was not used");
});
