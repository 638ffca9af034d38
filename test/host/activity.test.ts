// What counts as use of a sandbox: bytes that open connections carry do, that they are open does not, and nothing is lost by sleeping meanwhile.
import assert from "node:assert/strict";
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { type ClientRequest, request as sendRequest } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import WebSocket from "ws";
import { eventually } from "../eventually.ts";
import { apiKey, HostHarness } from "./harness.ts";

const wsModule = join(import.meta.dirname, "../../node_modules/ws/wrapper.mjs");

/** Echoes WebSocket messages; over HTTP: /events says hello and is silent until /say, /upload counts bytes, /big sends 8 MiB. */
const serverSource = `
import { createServer } from "node:http";
import { WebSocketServer } from ${JSON.stringify(wsModule)};
const open = new Set();
const server = createServer((request, response) => {
  if (request.url === "/events") { response.write("hello\\n"); open.add(response); return; }
  if (request.url === "/say") { console.log("said so"); for (const one of open) one.end("more\\n"); return response.end(); }
  if (request.url === "/big") return response.end(Buffer.alloc(8 << 20, "b"));
  let bytes = 0;
  request.on("data", (chunk) => { bytes += chunk.length; });
  request.on("end", () => response.end(String(bytes)));
});
new WebSocketServer({ server }).on("connection", (socket) => {
  socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
});
server.listen(0, "127.0.0.1", () => console.log("port " + server.address().port));
`;

let harness: HostHarness;
let port = 0;

before(async () => {
  harness = await HostHarness.start({ idleTimeoutMs: 50 });
  await harness.create("used");
  const script = join(harness.dataDir, "server.mjs");
  writeFileSync(script, serverSource);
  await harness.call("used", "POST", "/process", { name: "server", command: `${process.execPath} ${script}` });
  await eventually(async () => {
    const { logs } = await harness.call("used", "GET", "/process/server");
    port = Number(/port (\d+)/.exec(String(logs))?.[1]);
    assert.ok(port > 0);
  });
});
after(() => harness[Symbol.asyncDispose]());

const asleep = () => assert.equal(harness.status("used").state, "STANDBY");

async function openWebSocket(): Promise<WebSocket> {
  const socket = new WebSocket(harness.urlOf("used", `/port/${port}/`).replace("http", "ws"), {
    headers: { authorization: `Bearer ${apiKey}` },
  });
  await once(socket, "open");
  return socket;
}

function ask(method: string, path: string, headers: Record<string, string> = {}): ClientRequest {
  const sent = { authorization: `Bearer ${apiKey}`, ...headers };
  return sendRequest(harness.urlOf("used", path), { method, headers: sent, agent: false });
}

/** Reads a stream of text piece by piece. */
async function follow(path: string) {
  const leaving = new AbortController();
  const response = await harness.ask("used", "GET", path, undefined, leaving.signal);
  assert.equal(response.status, 200);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  return {
    async until(wanted: string): Promise<string> {
      while (!text.includes(wanted)) {
        const { value, done } = await reader.read();
        assert.ok(!done, `it ended after ${JSON.stringify(text)}`);
        text += value;
      }
      return text;
    },
    leave: () => leaving.abort(),
  };
}

test("a sandbox whose log is followed in silence falls asleep, and the follower hears of what comes after", async () => {
  const flag = join(harness.dataDir, "flag");
  await harness.call("used", "POST", "/process", {
    name: "waits",
    command: `echo begun; until [ -e ${flag} ]; do sleep 0.02; done; echo found`,
  });
  const follower = await follow("/process/waits/logs/stream");
  await follower.until("begun");
  await eventually(asleep);
  writeFileSync(flag, "");
  await harness.call("used", "GET", "/health");
  assert.equal(await follower.until("found"), "stdout:begun\nstdout:found\n");
  rmSync(flag);
});

test("a WebSocket whose caller only pings lets the sandbox fall asleep; pings are answered for it, a message wakes it", async () => {
  const socket = await openWebSocket();
  const echoed: string[] = [];
  socket.on("message", (data) => echoed.push(String(data)));
  let pongs = 0;
  socket.on("pong", (data) => {
    assert.equal(String(data), "are you there");
    pongs += 1;
  });
  const pinging = setInterval(() => socket.ping("are you there"), 20);
  try {
    socket.send("first");
    await eventually(() => assert.deepEqual(echoed, ["first"]));
    await eventually(asleep);
    const [thaws, heard] = [harness.driver.count("thaw"), pongs];
    await eventually(() => assert.ok(pongs > heard + 10));
    assert.equal(harness.driver.count("thaw"), thaws, "pings wake nobody");
    socket.send("second");
    socket.send("x".repeat(1 << 20));
    socket.send("third");
    await eventually(() => assert.equal(echoed.length, 4));
    assert.deepEqual([echoed[1], echoed[2]!.length, echoed[3]], ["second", 1 << 20, "third"]);
    await eventually(asleep);
  } finally {
    clearInterval(pinging);
    socket.terminate();
  }
});

test("the close of a WebSocket reaches the server in its sleep", async () => {
  const socket = await openWebSocket();
  await eventually(asleep);
  socket.close(1_000, "enough");
  const [code, reason] = (await once(socket, "close")) as [number, Buffer];
  assert.deepEqual([code, String(reason)], [1_000, "enough"], "it was the server that answered");
});

test("messages sent at every moment of falling asleep are all echoed in order", async () => {
  const socket = await openWebSocket();
  const echoed: string[] = [];
  socket.on("message", (data) => echoed.push(String(data)));
  const sent: string[] = [];
  const freezes = harness.driver.count("freeze");
  // On a slow machine the silence lasts longer, or its end is seen later.
  for (let round = 0; round < 12 || (round < 100 && harness.driver.count("freeze") === freezes); round++) {
    sent.push(`message ${round}`);
    socket.send(`message ${round}`);
    // Around the silence after which it falls asleep.
    await new Promise((resolve) => setTimeout(resolve, 470 + round * 12));
  }
  await eventually(() => assert.deepEqual(echoed, sent));
  assert.ok(harness.driver.count("freeze") > freezes);
  socket.terminate();
});

test("two hundred silent streams hold nothing, and all of them hear of what comes", async () => {
  const paths = Array.from({ length: 200 }, (_, index) =>
    index % 20 > 0 ? "/process/server/logs/stream" : `/watch/filesystem${harness.dataDir}/watched`,
  );
  await harness.call("used", "PUT", `/filesystem${harness.dataDir}/watched`, { isDirectory: true });
  const followers = await Promise.all(paths.map((path) => follow(path)));
  await eventually(asleep);
  await harness.call("used", "PUT", `/filesystem${harness.dataDir}/watched/new`, { content: "x" });
  assert.ok((await harness.ask("used", "GET", `/port/${port}/say`)).ok);
  await Promise.all(followers.map((follower, index) => follower.until(index % 20 > 0 ? "said so" : "new")));
  await eventually(asleep);
  for (const follower of followers) follower.leave();
});

test("a stream of a server inside goes on after the sandbox slept", async () => {
  const events = await follow(`/port/${port}/events`);
  await events.until("hello");
  await eventually(asleep);
  assert.ok((await harness.ask("used", "GET", `/port/${port}/say`)).ok);
  assert.equal(await events.until("more"), "hello\nmore\n");
});

test("an upload that pauses lets the sandbox sleep, and goes on where it was", async () => {
  const upload = ask("POST", `/port/${port}/upload`, { "content-length": "2000000" });
  upload.write(Buffer.alloc(1_000_000));
  await eventually(asleep);
  upload.end(Buffer.alloc(1_000_000));
  const [response] = await once(upload, "response");
  assert.equal(String(await response.toArray()), "2000000");
});

test("a caller that pauses a download lets the sandbox sleep, and gets the rest", async () => {
  const socket = connect(harness.port, "127.0.0.1");
  const path = new URL(harness.urlOf("used", `/port/${port}/big`)).pathname;
  socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${apiKey}\r\nconnection: close\r\n\r\n`);
  await once(socket, "readable");
  await eventually(asleep);
  let bytes = 0;
  for await (const chunk of socket) bytes += (chunk as Buffer).length;
  assert.ok(bytes > 8 << 20, `only ${bytes} bytes came`);
});

test("a command whose outcome is awaited is finished, however silent it is", async () => {
  await eventually(asleep);
  const freezes = harness.driver.count("freeze");
  const request = ask("POST", "/process", { accept: "text/event-stream", "content-type": "application/json" });
  request.end(JSON.stringify({ command: "sleep 1.5; echo done", waitForCompletion: true }));
  const [response] = await once(request, "response");
  assert.match(String(await response.toArray()), /done/);
  assert.ok(harness.driver.count("freeze") <= freezes + 1);
  await eventually(asleep);
});
