// The official client's previews and sessions, unchanged, on a real sandbox; and what browsers and programs do with the addresses.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";
import { echoServer } from "./echo-server.ts";
import { type Client, loadClient, type ClientSandbox as Sandbox } from "./load-client.ts";

let platform: SpawnedPlatform;
let client: Client;
let sandbox: Sandbox;

const hour = (): Date => new Date(Date.now() + 3_600_000);

before(async () => {
  platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "1s" });
  client = await loadClient(platform);
  sandbox = await client.SandboxInstance.create({ name: "previewed", memory: 1024 });
  await sandbox.fs.write("/app/server.py", echoServer);
  await sandbox.process.exec({ name: "server", command: "python3 /app/server.py", waitForPorts: [8000] });
});

after(async () => {
  await platform[Symbol.asyncDispose]();
});

test("previews are created, listed, found and deleted", async () => {
  const made = await sandbox.previews.create({
    metadata: { name: "managed" },
    spec: { port: 8000, public: true, prefixUrl: "my-shop" },
  });
  assert.match(made.spec.url!, /preview/);
  assert.match(made.spec.url!, /my-shop/);
  assert.deepEqual([made.metadata.resourceName, made.spec.port], ["previewed", 8000]);
  const listed = await sandbox.previews.list();
  assert.deepEqual(
    listed.map(({ name }) => name),
    ["managed"],
  );
  assert.equal((await sandbox.previews.get("managed")).spec.url, made.spec.url);
  const same = await sandbox.previews.createIfNotExists({ metadata: { name: "managed" }, spec: { port: 1 } });
  assert.equal(same.spec.port, 8000);
  await assert.rejects(
    sandbox.previews.create({ metadata: { name: "second" }, spec: { port: 8000, prefixUrl: "my-shop" } }),
  );
  const forced = await sandbox.previews.create(
    { metadata: { name: "second" }, spec: { port: 8000, public: true, prefixUrl: "my-shop" } },
    true,
  );
  assert.equal(forced.spec.url, made.spec.url);
  await assert.rejects(sandbox.previews.get("managed"), { code: 404 });
  await sandbox.previews.delete("second");
  await assert.rejects(sandbox.previews.get("second"), { code: 404 });
  assert.equal((await fetch(made.spec.url!)).status, 404);
  const again = await sandbox.previews.createIfNotExists({ metadata: { name: "later" }, spec: { port: 8000 } });
  assert.equal(again.name, "later");
});

test("a public preview shows the server inside to everybody, with its owner's headers, also in a preflight", async () => {
  const { spec } = await sandbox.previews.create({
    metadata: { name: "public" },
    spec: {
      port: 8000,
      public: true,
      responseHeaders: { "Access-Control-Allow-Origin": "https://app.example", "X-Own": "1" },
    },
  });
  const answer = await fetch(`${spec.url}/some/path?q=1`);
  assert.deepEqual([answer.status, await answer.text()], [200, "/some/path?q=1"]);
  assert.deepEqual(
    [answer.headers.get("access-control-allow-origin"), answer.headers.get("x-own")],
    ["https://app.example", "1"],
  );
  const preflight = await fetch(spec.url!, {
    method: "OPTIONS",
    headers: { origin: "https://app.example", "access-control-request-method": "POST" },
  });
  assert.deepEqual(
    [preflight.status, preflight.headers.get("access-control-allow-origin")],
    [204, "https://app.example"],
  );
});

test("a private preview opens with a token in header or query until the token is deleted", async () => {
  const preview = await sandbox.previews.create({ metadata: { name: "private" }, spec: { port: 8000, public: false } });
  const url = preview.spec.url!;
  assert.equal((await fetch(url)).status, 401);
  const token = await preview.tokens.create(hour());
  assert.equal(token.expired, false);
  const header = { "X-Blaxel-Preview-Token": token.value };
  assert.equal(await (await fetch(`${url}/a`, { headers: header })).text(), "/a");
  assert.equal(await (await fetch(`${url}/a?x=1&bl_preview_token=${token.value}`)).text(), "/a?x=1");
  assert.equal((await preview.tokens.list()).length, 1);

  const browser = await openPage(`${url}/a?bl_preview_token=${token.value}`);
  assert.equal(browser.statusCode, 303);
  const cookie = browser.headers["set-cookie"]![0]!.split(";")[0]!;
  const next = await fetch(new URL(browser.headers.location!, url), { headers: { cookie } });
  assert.equal(await next.text(), "/a");

  const slow = await openSocket(`${url}/ws?bl_preview_token=${token.value}`);
  assert.equal(await slow.echo("hello"), "hello");
  await preview.tokens.delete(token.value);
  assert.equal((await fetch(url, { headers: header })).status, 401);
  assert.equal((await fetch(url, { headers: { cookie } })).status, 401);
  await slow.closed;
});

test("a preview wakes its sandbox, and an answered preflight does not", async () => {
  const state = async (): Promise<unknown> => (await platform.call("GET", "/v0/sandboxes/previewed")).state;
  const { spec } = await sandbox.previews.get("public");
  await eventually(async () => assert.equal(await state(), "STANDBY"));
  const headers = { origin: "https://app.example", "access-control-request-method": "GET" };
  assert.equal((await fetch(spec.url!, { method: "OPTIONS", headers })).status, 204);
  assert.equal(await state(), "STANDBY");
  assert.equal(await (await fetch(`${spec.url}/awake`)).text(), "/awake");
});

test("a session does everything inside the sandbox and nothing outside it", async () => {
  const session = await sandbox.sessions.create({
    expiresAt: hour(),
    responseHeaders: { "Access-Control-Allow-Origin": "*" },
  });
  assert.ok(session.token.length > 20 && session.url.length > 0);
  const visitor = await client.SandboxInstance.fromSession(session);
  const lines: string[] = [];
  const ran = await visitor.process.exec({
    command: "for i in 1 2 3; do echo line $i; done",
    waitForCompletion: true,
    onStdout: (text: string) => lines.push(...text.split("\n").filter(Boolean)),
  });
  assert.equal(ran.exitCode, 0);
  await eventually(() => assert.deepEqual(lines, ["line 1", "line 2", "line 3"]));
  const bytes = randomBytes(6 * 1024 * 1024);
  await visitor.fs.writeBinary("/app/large.bin", bytes);
  const read = await visitor.fs.readBinary("/app/large.bin");
  assert.ok(bytes.equals(Buffer.from(await read.arrayBuffer())));
  await visitor.fs.write("/app/watched/file", "1");
  const told: string[] = [];
  const watching = visitor.fs.watch("/app/watched/**", ({ op, name }) => void told.push(`${op} ${name}`));
  try {
    await eventually(async () => {
      await visitor.fs.write("/app/watched/new", String(told.length));
      assert.ok(told.includes("CREATE new"), told.join());
    });
  } finally {
    watching.close();
  }
  const headers = { "X-Blaxel-Preview-Token": session.token };
  assert.equal((await fetch(`${session.url}/process`)).status, 401);
  assert.equal(
    (await fetch(`${session.url}/process`, { headers: { authorization: `Bearer ${platform.apiKey}` } })).status,
    401,
  );
  assert.equal((await fetch(`${session.url}/v0/sandboxes`, { headers })).status, 404);
  assert.equal((await fetch(`${platform.url}/v0/sandboxes`, { headers })).status, 401);
  const socket = await openSocket(`${session.url}/port/8000/ws?bl_preview_token=${session.token}`);
  assert.equal(await socket.echo("through"), "through");

  const listed = await sandbox.sessions.list();
  assert.deepEqual(
    listed.map(({ name }) => name),
    [session.name],
  );
  assert.deepEqual(
    [new Date(listed[0]!.expiresAt).getTime(), listed[0]!.token, listed[0]!.url],
    [session.expiresAt.getTime(), session.token, session.url],
  );
  await sandbox.sessions.delete(session.name);
  await socket.closed;
  assert.equal((await fetch(`${session.url}/process`, { headers })).status, 404);
  assert.deepEqual(await sandbox.sessions.list(), []);
});

test("sessions are found again with what opens them, and replaced when they are about to end", async () => {
  const first = await sandbox.sessions.create({ expiresAt: hour() });
  const { token, url, expiresAt } = await sandbox.sessions.get(first.name);
  assert.deepEqual([token, url, new Date(expiresAt).getTime()], [first.token, first.url, first.expiresAt.getTime()]);
  const same = await sandbox.sessions.createIfExpired({}, 60_000);
  assert.deepEqual([same.name, same.token], [first.name, first.token]);
  const visitor = await client.SandboxInstance.fromSession({ ...same, expiresAt: new Date(same.expiresAt) });
  await visitor.fs.write("/app/from-session", "kept");
  const ran = await visitor.process.exec({ command: "cat /app/from-session", waitForCompletion: true });
  assert.deepEqual([ran.exitCode, ran.stdout], [0, "kept"]);
  assert.equal(await visitor.fs.read("/app/from-session"), "kept");

  const next = await sandbox.sessions.createIfExpired({ expiresAt: new Date(Date.now() + 7_200_000) }, 5_400_000);
  assert.notEqual(next.token, first.token);
  assert.equal((await fetch(`${first.url}/process?bl_preview_token=${first.token}`)).status, 404);
  const renewed = await client.SandboxInstance.fromSession({ ...next, expiresAt: new Date(next.expiresAt) });
  assert.equal(await renewed.fs.read("/app/from-session"), "kept");
  for (const { name } of await sandbox.sessions.list()) await sandbox.sessions.delete(name);
  assert.deepEqual(await sandbox.sessions.list(), []);
  const made = await sandbox.sessions.createIfExpired();
  assert.equal((await sandbox.sessions.get(made.name)).token, made.token);
  await sandbox.sessions.delete(made.name);
  await assert.rejects(sandbox.sessions.get(made.name), { code: 404 });
});

test("tokens are listed with their values, and each is deleted by its value alone", async () => {
  const preview = await sandbox.previews.createIfNotExists({
    metadata: { name: "tokens" },
    spec: { port: 8000, public: false },
  });
  const tokens = [await preview.tokens.create(hour())];
  // The client names tokens by the millisecond.
  await eventually(async () => void tokens.push(await preview.tokens.create(hour())));
  const found = await sandbox.previews.get("tokens");
  const values = (await found.tokens.list()).map(({ value }) => value);
  assert.deepEqual(values.toSorted(), tokens.map(({ value }) => value).toSorted());
  await found.tokens.delete(values[0]!);
  const status = async (value: string) => (await fetch(`${found.spec.url}/?bl_preview_token=${value}`)).status;
  assert.deepEqual(await Promise.all(values.map(status)), [401, 200]);
  assert.deepEqual(
    (await found.tokens.list()).map(({ value, expired }) => [value, expired]),
    [[values[1], false]],
  );
  await sandbox.previews.delete("tokens");
});

test("a preview ends when its time is over, also for what is open", async () => {
  const open = async (expires: string) => {
    const { spec } = await sandbox.previews.create({
      metadata: { name: "brief" },
      spec: { port: 8000, public: true, expires },
    });
    const socket = await openSocket(`${spec.url}/ws`);
    assert.equal(await socket.echo("still"), "still");
    return { spec, socket };
  };
  let expires = "";
  let opened: Awaited<ReturnType<typeof open>> | undefined;
  // On a slow machine its time may be over before it is open.
  for (let lifeMs = 2_000; opened === undefined; lifeMs *= 2) {
    expires = new Date(Date.now() + lifeMs).toISOString();
    opened = await open(expires).catch((error: unknown) => {
      if (Date.now() < Date.parse(expires) || lifeMs > 30_000) throw error;
      return undefined;
    });
  }
  const { spec, socket } = opened;
  await socket.closed;
  assert.ok(Date.now() >= Date.parse(expires));
  assert.equal((await fetch(spec.url!)).status, 404);
  await assert.rejects(sandbox.previews.get("brief"), { code: 404 });
});

test("previews end with their sandbox", async () => {
  const { spec } = await sandbox.previews.get("public");
  await sandbox.delete();
  assert.equal((await fetch(spec.url!)).status, 404);
});

/** As a browser does that says nothing else about itself; `fetch` says that it is a program. */
async function openPage(url: string): Promise<IncomingMessage> {
  const [answer] = (await once(get(url, { headers: { accept: "text/html" } }), "response")) as [IncomingMessage];
  answer.resume();
  return answer;
}

type Tunnel = { echo(text: string): Promise<string>; closed: Promise<unknown> };

/** A WebSocket as far as the echo server needs one. */
async function openSocket(url: string): Promise<Tunnel> {
  const { hostname, port, pathname, search, host } = new URL(url);
  const socket = connect(Number(port), hostname);
  const closed = once(socket, "close").catch(() => undefined);
  socket.on("error", () => undefined);
  const head = [`GET ${pathname}${search} HTTP/1.1`, `host: ${host}`, "connection: Upgrade", "upgrade: websocket"];
  socket.write(
    `${[...head, "sec-websocket-version: 13", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="].join("\r\n")}\r\n\r\n`,
  );
  const [first] = (await once(socket, "data")) as [Buffer];
  assert.match(first.toString("latin1"), /^HTTP\/1\.1 101 /);
  // Below a path of the platform nothing inside may set cookies for it.
  assert.doesNotMatch(first.toString("latin1"), /set-cookie/i);
  return {
    closed,
    async echo(text) {
      const answer = once(socket, "data") as Promise<[Buffer]>;
      socket.write(Buffer.concat([Buffer.from([0x81, 0x80 | text.length, 0, 0, 0, 0]), Buffer.from(text)]));
      const cut = closed.then(() => assert.fail("it was closed before it answered"));
      return (await Promise.race([answer, cut]))[0].subarray(2).toString();
    },
  };
}
