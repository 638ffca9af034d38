// The init replaced in place: nothing that runs, reads, writes, waits or has ended is lost or doubled, and a broken binary replaces nothing.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { FrameWriter } from "../../src/host/guest/frames.ts";
import type { GuestConnection } from "../../src/host/guest/guest.ts";
import { frameType } from "../../src/host/guest/protocol.ts";
import { eventually } from "../eventually.ts";
import { startFakeGuest } from "./fake-guest.ts";
import { Recorder } from "./recorder.ts";
import { startAttached } from "./start-attached.ts";
import { buildGuest, startGuest } from "./start-guest.ts";

const environment = { PATH: "/usr/local/bin:/usr/bin:/bin", TERM: "xterm", PS1: "> " };
const binary = readFileSync(process.env.CATNAP_GUEST_BINARY ?? buildGuest("init"));

function shell(token: string, script: string) {
  return { token, argv: ["sh", "-c", script], workingDir: "/", environment };
}

function numbers(to: number): string {
  let text = "";
  for (let number = 1; number <= to; number++) text += `${number}\n`;
  return text;
}

function descriptorsOf(pid: number): string[] {
  return readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`).replace(/\d+/g, "N"));
}

/** An init with sanitizers takes long to start. */
const rounds = process.env.CATNAP_GUEST_BINARY === undefined ? 200 : 20;
let version = "";

before(async () => {
  await using session = await startAttached();
  ({ from: version } = await session.connection.upgrade(binary));
});

test("the init that takes over says both versions, is the same process and answers on the same connection", async () => {
  await using session = await startAttached();
  const { guest, connection } = session;
  const { from, to } = await connection.upgrade(binary);
  assert.match(from, /^[0-9a-f]{12}$/);
  assert.equal(to, from);
  assert.match(readlinkSync(`/proc/${guest.pid}/exe`), /memfd:catnap-init/);
  assert.equal(readFileSync(`/proc/${guest.pid}/comm`, "utf8"), "catnap-init\n");
  await connection.ping();
  assert.equal((await connection.files.stat("/etc/passwd")).type, "file");
  await connection[Symbol.asyncDispose]();
  await using second = await guest.open();
  await second.ping();
});

test(`${rounds} upgrades in a row under load: every byte of output once, and no descriptor or process stays behind`, async () => {
  await using session = await startAttached();
  const { guest, connection, recorder } = session;
  await connection.upgrade(binary);
  await connection.ping();
  const before = descriptorsOf(guest.pid).length;
  const script = `while [ ! -e ${guest.dir}/stop ]; do seq 1 20000; done; echo end; exit 6`;
  await connection.spawn(shell("talks", script));
  await connection.spawn(shell("errors", script.replace("20000", "20000 >&2").replace("echo end", "echo end >&2")));
  for (let round = 0; round < rounds; round++) {
    await connection.upgrade(binary);
    if (round % 10 !== 0) continue;
    // Short ones that begin and end between upgrades.
    await connection.spawn(shell(`short${round}`, `echo ${round}; exit ${round}`));
  }
  writeFileSync(`${guest.dir}/stop`, "");
  for (let round = 0; round < rounds; round += 10) {
    assert.deepEqual(await recorder.ended(`short${round}`), { code: round });
    assert.equal(recorder.text(`short${round}`), `${round}\n`);
  }
  for (const [token, stream] of [
    ["talks", "stdout"],
    ["errors", "stderr"],
  ] as const) {
    assert.deepEqual(await recorder.ended(token), { code: 6 });
    const once = numbers(20_000);
    const text = recorder.text(token, stream).replace(/end\n$/, "");
    assert.equal(text.length % once.length, 0);
    assert.ok(text.length > 0 && text === once.repeat(text.length / once.length));
  }
  await connection.ping();
  await eventually(() => assert.equal(descriptorsOf(guest.pid).length, before));
  await eventually(() => assert.equal(readFileSync(`/proc/${guest.pid}/task/${guest.pid}/children`, "utf8"), ""));
});

test("a shell on a terminal goes on, with its size, its jobs and its keys", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  const terminal = { columns: 90, rows: 25 };
  await connection.spawn({ token: "shell", argv: ["bash", "--norc", "-i"], workingDir: "/", environment, terminal });
  const type = (text: string) => connection.writeStdin("shell", Buffer.from(text));
  await type("x=kept; sleep 60 &\n");
  await eventually(() => assert.match(recorder.text("shell"), /\[1\] \d+/));
  await connection.upgrade(binary);
  await type("echo $x $((40 + 2)); stty size; jobs\n");
  await eventually(() => assert.match(recorder.text("shell"), /kept 42\r\n25 90\r\n\[1\]\+\s+Running/));
  await connection.resizeTerminal("shell", { columns: 70, rows: 20 });
  await type("stty size\n");
  await eventually(() => assert.match(recorder.text("shell"), /20 70\r\n/));
  await type("cat\n");
  await type("typed\n");
  await eventually(() => assert.match(recorder.text("shell"), /typed\r\n/));
  await connection.upgrade(binary);
  await type("\x03");
  await eventually(() => assert.match(recorder.text("shell"), /\^C/));
  await connection.closeStdin("shell");
  assert.deepEqual(await recorder.ended("shell"), { signal: 1 });
});

test("a write half-way goes on through upgrades, byte for byte", async () => {
  await using session = await startAttached();
  const { guest, connection, recorder } = session;
  const bytes = Buffer.alloc(3_000_000);
  for (let at = 0; at < bytes.length; at += 4) bytes.writeUInt32BE(at, at);
  const spawned = shell("reads", `while [ ! -e ${guest.dir}/go ]; do sleep 0.01; done; sha256sum`);
  await connection.spawn({ ...spawned, stdin: "pipe" });
  const written = connection.writeStdin("reads", bytes);
  await connection.upgrade(binary);
  await connection.upgrade(binary);
  writeFileSync(`${guest.dir}/go`, "");
  for (let round = 0; round < 20; round++) await connection.upgrade(binary);
  assert.deepEqual(await written, { taken: bytes.length });
  await connection.upgrade(binary);
  await connection.closeStdin("reads");
  await recorder.ended("reads");
  assert.equal(recorder.text("reads"), `${createHash("sha256").update(bytes).digest("hex")}  -\n`);
});

test("100 processes that end while the init is replaced all end with what they ended with", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  const tokens = Array.from({ length: 100 }, (_, index) => `many${index}`);
  await Promise.all(
    tokens.map((token, index) =>
      connection.spawn(shell(token, `sleep 0.${index % 10}${index % 7}; echo ${token}; exit ${index}`)),
    ),
  );
  for (let round = 0; round < 20; round++) await connection.upgrade(binary);
  for (const [index, token] of tokens.entries()) {
    assert.deepEqual(await recorder.ended(token), { code: index });
    assert.equal(recorder.text(token), `${token}\n`);
  }
});

test("what nobody has acknowledged survives an upgrade and the host that asked for it", async () => {
  await using guest = await startGuest();
  {
    await using first = await guest.open();
    const deaf = new Recorder();
    for (const token of ["kept", "input"]) deaf.gates.set(token, new Promise(() => undefined));
    await first.attach(deaf.attachment);
    await first.spawn(shell("kept", "seq 1 8000; echo oops >&2; exit 9"));
    await first.spawn({ ...shell("input", "cat; exit 2"), stdin: "pipe" });
    await first.writeStdin("input", Buffer.from("half "));
    await first.spawn(shell("leaves", "(sleep 30 &) ; exit 3"));
    await first.upgrade(binary);
    await first.upgrade(binary);
  }
  await using second = await guest.open();
  const recorder = new Recorder();
  await second.attach(recorder.attachment);
  assert.equal(recorder.processes.find(({ token }) => token === "input")?.stdin?.taken, 5);
  assert.deepEqual(await recorder.ended("kept"), { code: 9 });
  assert.equal(recorder.text("kept"), numbers(8_000));
  assert.equal(recorder.text("kept", "stderr"), "oops\n");
  await second.writeStdin("input", Buffer.from("half whole"), { offset: 0 });
  await second.closeStdin("input");
  assert.deepEqual(await recorder.ended("input"), { code: 2 });
  assert.equal(recorder.text("input"), "half whole");
  await second.spawn(shell("limits", "ulimit -n; readlink /proc/self/fd/0; cat /proc/self/oom_score_adj; umask"));
  await recorder.ended("limits");
  const limit = /Max open files\s+(\d+)/.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
  const score = Math.min(Number(readFileSync("/proc/self/oom_score_adj", "utf8")) + 300, 1000);
  assert.equal(recorder.text("limits"), `${limit}\n/dev/null\n${score}\n0022\n`);
});

test("file operations and tunnels under way during upgrades finish", async () => {
  await using session = await startAttached();
  const { guest, connection } = session;
  const content = Buffer.alloc(8_000_000, "content ");
  const path = join(guest.dir, "file");
  let upgrades = 0;
  let isDone = false;
  const upgrading = (async () => {
    for (; !isDone; upgrades++) await connection.upgrade(binary);
  })();
  for (let round = 0; round < 10 || upgrades < 4; round++) {
    const operations = [
      connection.files.write(path, content),
      ...Array.from({ length: 20 }, () => connection.files.stat("/etc/passwd")),
    ];
    await Promise.race([Promise.all(operations), upgrading]);
  }
  isDone = true;
  await upgrading;
  assert.ok(readFileSync(path).equals(content));
});

async function refusal(connection: GuestConnection, broken: Buffer): Promise<string> {
  const error = await connection.upgrade(broken).then(
    () => assert.fail("a broken binary was taken"),
    (caught: { code: string; message: string; details: { step: string } }) => caught,
  );
  assert.deepEqual([error.code, error.details.step], ["unprocessable", "validate"]);
  return error.message;
}

test("a binary that is none, ends, hangs, crashes or talks nonsense is refused, and everything goes on", async () => {
  await using session = await startAttached();
  const { guest, connection, recorder } = session;
  const compile = (source: string): Buffer => {
    const path = join(guest.dir, "broken");
    execFileSync("musl-gcc", ["-static", "-x", "c", "-", "-o", path], { input: source });
    return readFileSync(path);
  };
  await connection.spawn({ ...shell("goes", "cat"), stdin: "pipe" });
  const cases: [Buffer, RegExp][] = [
    [Buffer.from("#!/bin/sh\necho no\n"), /does not run it/],
    [Buffer.alloc(5_000_000, 1), /does not run it \(ENOEXEC\)/],
    [compile("int main(void){return 0;}"), /did not answer as an init/],
    [compile("int main(void){return 7;}"), /ended with code 7/],
    [compile('#include <unistd.h>\nint main(void){write(1,"CATN",4);return 0;}'), /did not answer as an init/],
    [compile("#include <stdlib.h>\nint main(void){abort();}"), /ended by signal 6/],
    [
      compile("#include <unistd.h>\nint main(void){char b[65536];for(;;)write(1,b,sizeof b);}"),
      /did not answer in time/,
    ],
    [
      compile("#include <unistd.h>\nint main(void){char b[4];b[0]=0;return read(3,b,4)==4&&b[0]=='C'?9:1;}"),
      /ended with code 9/,
    ],
  ];
  for (const [broken, reason] of cases) {
    assert.match(await refusal(connection, broken), reason);
    await connection.writeStdin("goes", Buffer.from("x"));
  }
  await refusal(connection, binary.subarray(0, binary.length >> 1));
  await assert.rejects(connection.upgrade(Buffer.alloc(0)), { details: { step: "validate" } });
  await assert.rejects(connection.upgrade(Buffer.alloc(17 * 1024 * 1024)), { details: { step: "validate" } });
  assert.deepEqual(await connection.upgrade(binary), { from: version, to: version });
  await connection.closeStdin("goes");
  assert.deepEqual(await recorder.ended("goes"), { code: 0 });
  assert.equal(recorder.text("goes"), "x".repeat(cases.length));
});

test("while one upgrade hangs the init serves everybody, refuses a second, and forgets it with its host", async () => {
  await using guest = await startGuest();
  const path = join(guest.dir, "hangs");
  const source = "#include <unistd.h>\nint main(void){for(;;)pause();}";
  execFileSync("musl-gcc", ["-static", "-x", "c", "-", "-o", path], { input: source });
  {
    await using first = await guest.open();
    const hanging = assert.rejects(first.upgrade(readFileSync(path)), { code: "unavailable" });
    await eventually(() => {
      assert.notEqual(readFileSync(`/proc/${guest.pid}/task/${guest.pid}/children`, "utf8"), "");
    });
    await first.ping();
    await first.files.stat("/");
    await assert.rejects(first.upgrade(binary), { code: "conflict" });
    await first[Symbol.asyncDispose]();
    await hanging;
  }
  await using second = await guest.open();
  await eventually(() => assert.equal(readFileSync(`/proc/${guest.pid}/task/${guest.pid}/children`, "utf8"), ""));
  assert.deepEqual(await second.upgrade(binary), { from: version, to: version });
});

test("an init that takes over after a long time is known for what it is from then on", async (context) => {
  await using fake = await startFakeGuest({ hello: Buffer.from("CATN\x01\x00\x01\x02", "latin1") });
  await using connection = await fake.open();
  const control = await fake.control;
  const uses = () => connection.connectTo("name", 1, AbortSignal.abort(new Error("it would")));
  await assert.rejects(uses(), { code: "unprocessable", details: { ability: "connectTo" } });
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const upgraded = connection.upgrade(binary).catch((error: unknown) => error);
  context.mock.timers.tick(3_600_000);
  context.mock.timers.reset();
  const answer = new FrameWriter().text("").u32(0).text("before").text("now").u8(4);
  control.write(answer.frame(frameType.upgraded, 1));
  await eventually(() => assert.rejects(uses(), /it would/));
  assert.deepEqual(await upgraded, { from: "before", to: "now" });
});

test("an init of an earlier build is not asked to", async () => {
  await using fake = await startFakeGuest({ hello: Buffer.from("CATN\x01\x00\x01\x01", "latin1") });
  await using connection = await fake.open();
  await assert.rejects(connection.upgrade(binary), { code: "unprocessable", details: { ability: "upgrade" } });
});
