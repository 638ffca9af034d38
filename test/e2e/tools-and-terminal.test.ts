// On a real sandbox: the official client's tools over the Model Context Protocol, and a terminal that outlives sleep, clients and daemons,
// with a key, and as a browser opens it through a session.
import assert from "node:assert/strict";
import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { after, before, test } from "node:test";
import { WebSocket } from "ws";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";
import { type Client, loadClient, type ClientSandbox as Sandbox } from "./load-client.ts";

const domain = "sandboxes.test";
let platform: SpawnedPlatform;
let client: Client;
let sandbox: Sandbox;
const sockets: WebSocket[] = [];

before(async () => {
  platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "1s" });
  client = await loadClient(platform);
  sandbox = await client.SandboxInstance.create({ name: "tools", memory: 1024 });
});

after(async () => {
  for (const socket of sockets) socket.terminate();
  await platform[Symbol.asyncDispose]();
});

const stateOf = async (): Promise<unknown> => (await platform.call("GET", "/v0/sandboxes/tools")).state;

type Shell = { socket: WebSocket; shown(): string; type(data: string): void };

async function openShell(url: string, headers: Record<string, string>): Promise<Shell> {
  const socket = new WebSocket(url.replace(/^http/, "ws"), { headers });
  sockets.push(socket);
  let shown = "";
  socket.on("message", (data) => {
    const message = JSON.parse(data.toString()) as { type: string; data: string };
    if (message.type === "output") shown += message.data;
  });
  await once(socket, "open");
  socket.on("error", () => undefined);
  return { socket, shown: () => shown, type: (data) => socket.send(JSON.stringify({ type: "input", data })) };
}

const shows = (shell: Shell, pattern: RegExp) => eventually(() => assert.match(shell.shown(), pattern));

test("the official client lists the tools and calls them", async () => {
  const tools = await client.getTool("sandboxes/tools");
  assert.equal(tools.length, 19);
  const call = async (name: string, input: object): Promise<{ structuredContent: Record<string, unknown> }> =>
    (await tools.find((tool) => tool.name === name)!.call(input)) as { structuredContent: Record<string, unknown> };
  await call("fsWriteFile", { path: "greeting.py", content: "print('hello from a tool')\n" });
  const ran = await call("processExecute", {
    command: "python3 greeting.py",
    workingDir: "/blaxel",
    waitForCompletion: true,
  });
  assert.deepEqual([ran.structuredContent.exitCode, ran.structuredContent.logs], [0, "hello from a tool\n"]);
  const found = await call("codegenGrepSearch", { query: "hello .* tool" });
  assert.match(String(found.structuredContent.results), /^greeting\.py:1:8:/);
  assert.equal(await sandbox.fs.read("/blaxel/greeting.py"), "print('hello from a tool')\n");
});

test("a terminal lets the sandbox sleep, wakes it with a key stroke, and outlives a daemon that is killed", async () => {
  const url = `${sandbox.metadata.url}/terminal/ws?sessionId=mine`;
  const headers = { authorization: `Bearer ${platform.apiKey}` };
  const first = await openShell(url, headers);
  first.type("KEPT=through-it-all\n");
  await shows(first, /KEPT=through-it-all/);
  await eventually(async () => assert.equal(await stateOf(), "STANDBY"));
  assert.equal(first.socket.readyState, WebSocket.OPEN);
  first.type("echo woken-$KEPT\n");
  await shows(first, /woken-through-it-all/);
  await platform.kill();
  await platform.start();
  const second = await openShell(url, headers);
  second.type("echo again-$KEPT; exit 3\n");
  const [code, reason] = (await once(second.socket, "close")) as [number, Buffer];
  assert.match(second.shown(), /again-through-it-all/);
  assert.deepEqual([code, reason.toString()], [1_000, "exit code 3"]);
});

test("without a credential there is no terminal, and a key of nobody opens none", async () => {
  const url = `${sandbox.metadata.url}/terminal/ws`;
  for (const headers of [{}, { authorization: "Bearer nobody" }]) {
    await assert.rejects(openShell(url, headers as Record<string, string>), /401/);
  }
  assert.equal((await fetch(`${sandbox.metadata.url}/terminal`)).status, 401);
});

test("a sandbox may want no terminals", async () => {
  const none = await client.SandboxInstance.create({
    name: "no-terminal",
    memory: 512,
    envs: [{ name: "DISABLE_TERMINAL", value: "true" }],
  });
  const headers = { authorization: `Bearer ${platform.apiKey}` };
  assert.equal((await fetch(`${none.metadata.url}/terminal`, { headers })).status, 403);
  await assert.rejects(openShell(`${none.metadata.url}/terminal/ws`, headers), /403/);
  await none.delete();
});

test("without a domain the terminal's page has the token it comes back with, and nothing else is told it", async () => {
  const session = await sandbox.sessions.create({ expiresAt: new Date(Date.now() + 3_600_000) });
  const { pathname } = new URL(session.url);
  const open = async (path: string, headers: Record<string, string>): Promise<IncomingMessage> => {
    const [answer] = await once(
      get(`${session.url}${path}`, { headers: { accept: "text/html", ...headers } }),
      "response",
    );
    return answer as IncomingMessage;
  };
  const entry = await open(`/terminal?sessionId=page&bl_preview_token=${session.token}`, {});
  assert.deepEqual([entry.statusCode, entry.headers.location], [303, `${pathname}/terminal?sessionId=page`]);
  entry.resume();
  const cookie = entry.headers["set-cookie"]![0]!.split(";")[0]!;
  const page = await open("/terminal?sessionId=page", {
    cookie,
    "sec-fetch-mode": "navigate",
    "sec-fetch-site": "none",
  });
  const content = await text(page);
  const token = /<meta name="preview-token" content="(\w+)" \/>/.exec(content)![1]!;
  assert.equal(token, session.token);
  const policies = String(page.headers["content-security-policy"]);
  assert.match(policies, /script-src 'sha256-.*frame-ancestors 'none'.*sandbox allow-/);
  assert.doesNotMatch(policies, /allow-same-origin/);
  assert.equal(page.headers["cross-origin-opener-policy"], undefined);
  assert.equal(page.headers["cache-control"], "no-store");

  const nobody = { origin: "null", "sec-fetch-site": "cross-site", "sec-fetch-mode": "websocket" };
  const socketUrl = `${session.url}/terminal/ws?sessionId=page`;
  const shell = await openShell(`${socketUrl}&bl_preview_token=${token}`, { ...nobody, cookie });
  shell.type("echo in-$((6*7))\n");
  await shows(shell, /in-42/);
  // A page of a program inside has the same origin of nobody, and the browser may send the cookie with what it asks.
  await assert.rejects(openShell(socketUrl, { ...nobody, cookie }), /401/);
  await assert.rejects(openShell(socketUrl, { origin: "null", cookie }), /401/);
  const foreign = { cookie, origin: "null", "sec-fetch-mode": "cors", "sec-fetch-site": "cross-site" };
  const refused = await open("/terminal", foreign);
  assert.equal(refused.statusCode, 401);
  assert.ok(!(await text(refused)).includes(token));
  await sandbox.sessions.delete(session.name);
});

test("a browser opens the terminal with a session's address, and no other site does with its cookie", async () => {
  await platform.stop();
  Object.assign(platform.env, { CATNAP_SANDBOX_DOMAIN: domain });
  await platform.start();
  const session = await sandbox.sessions.create({ expiresAt: new Date(Date.now() + 3_600_000) });
  const { host } = new URL(session.url);
  assert.ok(host.endsWith(domain) || host.includes(`.${domain}:`), host);
  const ask = async (path: string, headers: Record<string, string>): Promise<IncomingMessage> => {
    const [answer] = (await once(get(`${platform.url}${path}`, { headers: { host, ...headers } }), "response")) as [
      IncomingMessage,
    ];
    return answer;
  };
  const entry = await ask(`/terminal?bl_preview_token=${session.token}`, { accept: "text/html" });
  assert.deepEqual([entry.statusCode, entry.headers.location], [303, "/terminal"]);
  entry.resume();
  const cookie = entry.headers["set-cookie"]![0]!.split(";")[0]!;
  const page = await ask("/terminal", { accept: "text/html", cookie });
  assert.equal(page.statusCode, 200);
  // It comes back with its cookie.
  assert.ok(!(await text(page)).includes(session.token));
  assert.equal(page.headers["cross-origin-opener-policy"], "same-origin");
  const socketUrl = `${platform.url}/terminal/ws`;
  const shell = await openShell(socketUrl, { host, cookie, origin: `http://${host}` });
  shell.type("echo in-$((6*7))\n");
  await shows(shell, /in-42/);
  const foreignPages: Record<string, string>[] = [
    { origin: "https://evil.example" },
    { origin: `http://other.${domain}` },
    { origin: "null" },
    { origin: `http://${host}`, "sec-fetch-site": "same-site" },
  ];
  for (const foreign of foreignPages) {
    await assert.rejects(openShell(socketUrl, { host, cookie, ...foreign }), /Unexpected server response: 40[13]/);
  }
});
