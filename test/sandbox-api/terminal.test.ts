// Terminals over WebSocket: a real shell, what is shown again, who shares it, what ends it, and clients that misbehave.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { WebSocket } from "ws";
import { terminalFrameMaxBytes, terminalReplayBytes } from "../../src/contract/sandbox-api/terminal.ts";
import { eventually } from "../eventually.ts";
import { TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
const opened: Connection[] = [];
let sessions = 0;
beforeEach(async () => {
  sandbox = await TestSandbox.start();
});
afterEach(async () => {
  for (const connection of opened.splice(0)) connection.socket.terminate();
  await sandbox[Symbol.asyncDispose]();
});

type Message = { type: string; data: string; exitCode?: number };

/** A client as the page is one. */
class Connection {
  readonly socket: WebSocket;
  text = "";
  errors: Message[] = [];
  closed: { code: number; reason: string } | undefined;

  constructor(query: Record<string, string>) {
    this.socket = new WebSocket(`ws://127.0.0.1:${sandbox.port}/terminal/ws?${new URLSearchParams(query)}`);
    this.socket.on("message", (data) => {
      const message = JSON.parse(data.toString()) as Message;
      if (message.type === "output") this.text += message.data;
      else this.errors.push(message);
    });
    this.socket.on("close", (code, reason) => {
      this.closed = { code, reason: reason.toString() };
    });
    this.socket.on("error", () => undefined);
    opened.push(this);
  }

  type(data: string): void {
    this.socket.send(JSON.stringify({ type: "input", data }));
  }

  /** What a shell is typed before it is ready is echoed ahead of its prompt: patterns must not match it, nor the beginning of a line. */
  async shows(pattern: RegExp): Promise<void> {
    await eventually(() => assert.match(this.text, pattern));
  }

  async ends(): Promise<{ code: number; reason: string }> {
    await eventually(() => assert.ok(this.closed !== undefined));
    return this.closed!;
  }
}

async function open(query: Record<string, string> = {}): Promise<Connection> {
  const connection = new Connection({ shell: "/bin/sh", ...query });
  await once(connection.socket, "open");
  return connection;
}

/** A session of its own, so that tests do not share shells. */
const fresh = (): string => `session-${++sessions} ü/?`;

/** What the server says instead of agreeing. */
async function refusal(query: string, on = sandbox): Promise<{ status: number; body: string }> {
  const socket = connect(on.port, "127.0.0.1");
  const headers = "host: x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n";
  socket.write(`GET /terminal/ws?${query} HTTP/1.1\r\n${headers}sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`);
  let answer = "";
  for await (const chunk of socket) answer += String(chunk);
  return { status: Number(answer.split(" ")[1]), body: answer.slice(answer.indexOf("\r\n\r\n") + 4) };
}

test("the page is one document that loads nothing, runs its own scripts alone and is in nobody's frame", async () => {
  const page = await sandbox.ask("GET", "/terminal");
  assert.equal(page.status, 200);
  assert.match(page.headers["content-type"]!, /^text\/html/);
  assert.equal(page.headers["cache-control"], "no-store");
  assert.doesNotMatch(page.text, /<(?:script|link|img|iframe)[^>]+(?:src|href)=/);
  assert.doesNotMatch(page.text, /preview-token" content/);
  // What would end a script early, and what browsers change before they compare.
  const scripts = page.text.split("<script>").slice(1);
  for (const script of scripts) assert.equal(script.match(/<\/script|<!--|\r|\0/gi)?.length, 1);
  const policy = String(page.headers["content-security-policy"]);
  const hashes = scripts.map((script) => {
    const digest = createHash("sha256").update(script.slice(0, script.indexOf("</script>")));
    return `'sha256-${digest.digest("base64")}'`;
  });
  assert.equal(hashes.length, 3);
  assert.ok(policy.startsWith(`default-src 'none'; script-src ${hashes.join(" ")}; style-src`), policy);
  assert.match(policy, /connect-src 'self'; .*frame-ancestors 'none'$/);
  // Whoever was led here by another site is asked before the program its link names is run.
  for (const [site, isAsked] of [
    ["cross-site", true],
    ["same-site", true],
    ["same-origin", false],
    ["none", false],
    // In the clear, and to another machine, browsers send no such header.
    [undefined, true],
  ]) {
    const headers: Record<string, string> = site === undefined ? {} : { "sec-fetch-site": String(site) };
    const led = await sandbox.ask("GET", "/terminal?shell=/bin/sh", { headers });
    assert.equal(led.text.includes('<meta name="opened-by"'), isAsked, String(site));
  }
  assert.equal((await sandbox.ask("HEAD", "/terminal")).status, 200);
  assert.equal((await sandbox.ask("GET", "/terminal/assets/xterm.js")).status, 404);
  assert.equal((await sandbox.ask("GET", "/terminal/ws")).status, 400);
  assert.equal((await sandbox.ask("POST", "/terminal")).status, 405);
});

test("a shell takes input, knows its terminal and is no process of the API", async () => {
  const shell = await open({ sessionId: fresh(), cols: "101", rows: "33", workingDir: "/tmp" });
  shell.type("echo $TERM-$(pwd)-$(tty | cut -c1-9)-$((6*7)); stty size\n");
  await shell.shows(/xterm-256color-\/tmp-\/dev\/pts\/-42\r\n33 101\r\n/);
  shell.socket.send(JSON.stringify({ type: "resize", cols: 50, rows: 10 }));
  shell.type("stty size\n");
  await shell.shows(/10 50\r\n/);
  assert.deepEqual((await sandbox.ask("GET", "/process")).json, []);
});

test("characters of several bytes arrive whole, whichever way they come", async () => {
  const shell = await open({ sessionId: fresh() });
  shell.type(
    "stty -echo; printf '\\360\\237'; sleep 0.2; printf '\\230\\200|\\303'; sleep 0.2; printf '\\244|'; echo 'gr\u00fc\u00df \u{1f600}' | cat\n",
  );
  await shell.shows(/\u{1f600}\|ä\|grüß \u{1f600}\r\n/u);
  assert.doesNotMatch(shell.text, /\ufffd/);
});

test("the end of the shell is told with its exit code, and the next connection gets a new one", async () => {
  const sessionId = fresh();
  const [shell, other] = [await open({ sessionId }), await open({ sessionId })];
  shell.type("A=1; exit 7\n");
  for (const each of [shell, other]) {
    assert.deepEqual(await each.ends(), { code: 1_000, reason: "exit code 7" });
    assert.equal(each.errors[0]!.exitCode, 7);
  }
  const next = await open({ sessionId });
  next.type("echo [$A]\n");
  await next.shows(/\[\]\r\n/);
});

test("connections of one session see and type the same; another session is another shell", async () => {
  const sessionId = fresh();
  const [first, second, third] = [
    await open({ sessionId }),
    await open({ sessionId }),
    await open({ sessionId: fresh() }),
  ];
  first.type("A=shared\n");
  await second.shows(/A=shared\r\n/);
  second.type("echo got:$A\n");
  for (const each of [first, second]) await each.shows(/got:shared\r\n/);
  third.type("echo got:$A\n");
  await third.shows(/got:\r\n/);
});

test("who connects in the middle of a stream sees each line once, and those from before", async () => {
  const sessionId = fresh();
  const first = await open({ sessionId });
  // The prompt may be written on the first line.
  first.type("stty -echo; echo; i=0; while [ $i -lt 6000 ]; do i=$((i+1)); echo line-$i; done; echo all-done\n");
  await first.shows(/line-100\r/);
  const later: Connection[] = [];
  for (let index = 0; index < 5; index++) later.push(await open({ sessionId }));
  await first.shows(/\nall-done/);
  for (const each of [first, ...later]) {
    await each.shows(/\nall-done/);
    const numbers = [...each.text.matchAll(/^line-(\d+)\r?$/gm)].map((match) => Number(match[1]));
    numbers.forEach((number, index) => {
      assert.equal(number, numbers[0]! + index);
    });
    assert.equal(numbers.at(-1), 6_000);
  }
  assert.equal([...later[0]!.text.matchAll(/^line-1\r?$/gm)].length, 1, "the replay began at the beginning");
});

test("of much output the end is shown again, from a whole line on", async () => {
  const sessionId = fresh();
  const first = await open({ sessionId });
  first.type("stty -echo; seq -f '\\303\\274 line %.0f' 1 30000 | sed 's/^/ü/'; echo all-done\n");
  await first.shows(/\nall-done/);
  const again = await open({ sessionId });
  await again.shows(/\nall-done/);
  const bytes = Buffer.byteLength(again.text);
  assert.ok(bytes <= terminalReplayBytes + 1_024 && bytes > terminalReplayBytes / 2, String(bytes));
  assert.ok(again.text.startsWith("ü"), JSON.stringify(again.text.slice(0, 20)));
  assert.doesNotMatch(again.text, /\ufffd/);
  assert.ok(first.text.endsWith(again.text) || first.text.includes(again.text.slice(0, terminalReplayBytes / 2)));
});

test("a shell survives its client and the daemon", async () => {
  const sessionId = fresh();
  const before = await open({ sessionId });
  const flag = join(sandbox.workingDir, "flag");
  before.type(`KEPT=still-here; (until [ -e ${flag} ]; do sleep 0.05; done; echo late-$KEPT) & echo wai''ts\n`);
  await before.shows(/waits\r\n/);
  before.socket.terminate();
  await sandbox.close();
  writeFileSync(flag, "");
  await sandbox.open();
  const after = await open({ sessionId });
  await after.shows(/late-still-here/);
  after.type("echo now-$KEPT\n");
  await after.shows(/now-still-here\r\n/);
  assert.equal([...after.text.matchAll(/late-still-here/g)].length, 1);
  assert.deepEqual((await sandbox.ask("GET", "/process")).json, []);
  after.type("exit 4\n");
  assert.equal((await after.ends()).reason, "exit code 4");
});

test("a shell ends for its clients although it leaves something running", async () => {
  const shell = await open({ sessionId: fresh() });
  shell.type("(trap '' HUP; exec sleep 5) & exit 3\n");
  assert.equal((await shell.ends()).reason, "exit code 3");
});

test("a daemon that goes tells its clients to connect again", async () => {
  const shell = await open({ sessionId: fresh() });
  await sandbox.restart();
  assert.equal((await shell.ends()).code, 1_012);
});

test("a client that does not read is dropped and stalls nobody", async () => {
  const sessionId = fresh();
  const [reader, stuck] = [await open({ sessionId }), await open({ sessionId })];
  stuck.socket.pause();
  reader.type("stty -echo; seq 1 3000000 | tail -c 12000000; echo all-done\n");
  await eventually(() => assert.match(reader.text.slice(-4_096), /\nall-done/));
  stuck.socket.resume();
  const { code } = await stuck.ends();
  assert.ok(code === 1_013 || code === 1_006, String(code));
});

test("input that the shell does not read is bounded, and others are served", async () => {
  const stuck = await open({ sessionId: fresh() });
  stuck.type("stty raw -echo; echo re''ady; sleep 60\n");
  await stuck.shows(/ready/);
  const piece = JSON.stringify({ type: "input", data: "x".repeat(64 * 1024) });
  for (let index = 0; index < 64 && stuck.socket.readyState === WebSocket.OPEN; index++) stuck.socket.send(piece);
  const other = await open({ sessionId: fresh() });
  other.type("echo al''ive\n");
  await other.shows(/alive\r\n/);
});

test("large input arrives complete and in order", async () => {
  const shell = await open({ sessionId: fresh() });
  // Before it is raw, a terminal takes no lines of such a length.
  shell.type("stty raw -echo; echo re''ady; head -c 300000 | sha256sum; stty sane\n");
  await shell.shows(/ready/);
  const text = Array.from({ length: 30_000 }, (_, index) => String(index).padStart(10, "0")).join("");
  for (let at = 0; at < text.length; at += 16_384) shell.type(text.slice(at, at + 16_384));
  const { createHash } = await import("node:crypto");
  await shell.shows(new RegExp(createHash("sha256").update(text).digest("hex")));
});

for (const [what, message] of [
  ["is no JSON", "{"],
  ["is of no known type", '{"type":"output","data":"x"}'],
  ["is null", "null"],
  ["has data that is no text", '{"type":"input","data":1}'],
  ["has a size of nothing", '{"type":"resize","cols":0,"rows":5}'],
  ["has a huge size", '{"type":"resize","cols":100000,"rows":5}'],
  ["is binary", Buffer.from('{"type":"input","data":"x"}')],
] as const) {
  test(`a message that ${what} ends the connection, not the shell`, async () => {
    const sessionId = fresh();
    const [bad, good] = [await open({ sessionId }), await open({ sessionId })];
    bad.socket.send(message);
    assert.equal((await bad.ends()).code, 1_008);
    good.type("echo fi''ne\n");
    await good.shows(/fine\r\n/);
  });
}

test("a message above the limit ends the connection", async () => {
  const shell = await open({ sessionId: fresh() });
  shell.socket.send("x".repeat(terminalFrameMaxBytes + 1));
  assert.equal((await shell.ends()).code, 1_009);
});

test("what is asked wrongly is refused with the reason", async () => {
  for (const [query, status, reason] of [
    ["cols=0", 400, /^query parameter cols must be at least 1$/],
    ["rows=1001", 400, /^query parameter rows must/],
    ["cols=x", 400, /^query parameter cols must/],
    ["cols=80.5", 400, /^query parameter cols must be an integer$/],
    [`sessionId=${"x".repeat(129)}`, 400, /^query parameter sessionId must/],
    ["sessionId=r1&shell=/no/such/shell", 422, /\/no\/such\/shell/],
    ["sessionId=r2&shell=%00", 400, /NUL/],
    ["sessionId=r3&workingDir=/no/such/dir", 422, /./],
  ] as const) {
    const answer = await refusal(query);
    assert.equal(answer.status, status, query);
    assert.match((JSON.parse(answer.body) as { error: string }).error, reason);
  }
  const socket = connect(sandbox.port, "127.0.0.1");
  socket.write("GET /terminal/ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
  let answer = "";
  for await (const chunk of socket) answer += String(chunk);
  assert.match(answer, /^HTTP\/1\.1 400 [\s\S]*\{"error":"/);
});

test("terminals and their connections are limited, and nothing is compressed", async () => {
  await using own = await TestSandbox.start();
  const attempts: WebSocket[] = [];
  const attempt = async (sessionId: string): Promise<boolean> => {
    const socket = new WebSocket(`ws://127.0.0.1:${own.port}/terminal/ws?shell=/bin/cat&sessionId=${sessionId}`);
    attempts.push(socket);
    const opens = once(socket, "open").then(() => true);
    const isOpen = await Promise.race([opens, once(socket, "error").then(() => false)]).catch(() => false);
    if (isOpen) assert.equal(socket.extensions, "");
    return isOpen;
  };
  const alike = await Promise.all(Array.from({ length: 17 }, () => attempt("same")));
  assert.equal(alike.filter(Boolean).length, 16);
  const different = await Promise.all(Array.from({ length: 17 }, (_, index) => attempt(`s${index}`)));
  assert.equal(different.filter(Boolean).length, 15);
  assert.equal((await refusal("sessionId=more", own)).status, 429);
  const open = attempts.filter(({ readyState }) => readyState === WebSocket.OPEN).length;
  const more = await Promise.all(Array.from({ length: 64 - open + 3 }, (_, index) => attempt(`s${index % 8}`)));
  assert.equal(more.filter(Boolean).length, 64 - open, "of all terminals together");
  for (const socket of attempts) socket.terminate();
});
