// Output and ends are never lost: windows hold them until a host, the same or its successor, has acknowledged them.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { Recorder } from "./recorder.ts";
import { startGuest } from "./start-guest.ts";

const path = "/usr/bin:/bin";
/** What any host takes unacknowledged of a stream, and what this one does. */
const windowBytes = 64 * 1024;
const wideWindowBytes = 1024 * 1024;

function shell(token: string, script: string) {
  return { token, argv: ["sh", "-c", script], workingDir: "/", environment: { PATH: path } };
}

function numbers(from: number, to: number): string {
  let text = "";
  for (let number = from; number <= to; number++) text += `${number}\n`;
  return text;
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/** Dies once it has kept so many bytes. */
function startHost(socketPath: string, dir: string, bytes: number): { child: ChildProcess; lines: string[] } {
  const program = join(import.meta.dirname, "crashing-host.ts");
  const child = spawn(process.execPath, [program, socketPath, dir, String(bytes)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines: string[] = [];
  createInterface(child.stdout!).on("line", (line) => lines.push(line));
  return { child, lines };
}

test("20 MiB of two streams survive hosts that are killed, byte for byte", async () => {
  await using guest = await startGuest();
  {
    await using first = await guest.open();
    // Both at the same time, so that every crash meets both streams.
    await first.spawn(shell("talks", "seq 1 1500000 & seq 2000000 3400000 >&2; wait; exit 6"));
  }
  const expected = { stdout: numbers(1, 1_500_000), stderr: numbers(2_000_000, 3_400_000) };
  const total = expected.stdout.length + expected.stderr.length;
  assert.ok(total > 20 * 1024 * 1024);
  const kept = () => sizeOf(join(guest.dir, "stdout")) + sizeOf(join(guest.dir, "stderr"));
  for (let crash = 1; crash <= 6; crash++) {
    const { child } = startHost(guest.socketPath, guest.dir, total / 10);
    const [, signal] = await once(child, "exit");
    assert.equal(signal, "SIGKILL");
    assert.ok(kept() >= (crash * total) / 10 && kept() < total, `${kept()} of ${total} bytes after ${crash} crashes`);
  }
  const { child, lines } = startHost(guest.socketPath, guest.dir, Number.POSITIVE_INFINITY);
  await eventually(() => assert.deepEqual(lines, ["ready", 'ended {"code":6}']));
  child.stdin!.end();
  await once(child, "exit");
  assert.ok(readFileSync(join(guest.dir, "stdout"), "utf8") === expected.stdout);
  assert.ok(readFileSync(join(guest.dir, "stderr"), "utf8") === expected.stderr);
});

test("a process whose output nobody takes waits, and the others go on", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const recorder = new Recorder();
  await connection.attach(recorder.attachment);
  const gate = Promise.withResolvers<void>();
  recorder.gates.set("blocked", gate.promise);
  const progress = join(guest.dir, "progress");
  const script = `i=0; while [ $i -lt 160 ]; do head -c 65536 /dev/zero; i=$((i+1)); echo $i > ${progress}; done`;
  await connection.spawn(shell("blocked", script));
  // Its window, its pipe (64 KiB) and at most one block more.
  await eventually(() => assert.ok(Number(readFileSync(progress, "utf8")) >= 1));
  for (let other = 0; other < 30; other++) {
    await connection.spawn(shell(`other${other}`, "seq 1 20000"));
    assert.deepEqual(await recorder.ended(`other${other}`), { code: 0 });
    assert.equal(recorder.length(`other${other}`), 108_894);
  }
  const blocks = wideWindowBytes / 65_536 + 2;
  assert.ok(Number(readFileSync(progress, "utf8")) <= blocks, "more was written than window and pipe hold");
  assert.equal(recorder.length("blocked"), 0);
  gate.resolve();
  assert.deepEqual(await recorder.ended("blocked"), { code: 0 });
  assert.equal(recorder.length("blocked"), 160 * 65_536);
});

test("the end is kept, with the output before it, until a host has acknowledged it", async () => {
  await using guest = await startGuest();
  {
    await using first = await guest.open();
    await first.spawn(shell("quiet", "seq 1 10000; echo oops >&2; exit 9"));
  }
  const never = Promise.withResolvers<void>();
  for (let attempt = 0; attempt < 3; attempt++) {
    await eventually(async () => {
      await using connection = await guest.open();
      const deaf = new Recorder();
      deaf.gates.set("quiet", never.promise);
      await connection.attach(deaf.attachment);
      assert.deepEqual(
        deaf.processes.map(({ token, end }) => ({ token, end })),
        [{ token: "quiet", end: { code: 9 } }],
      );
    });
  }
  {
    await using connection = await guest.open();
    const recorder = new Recorder();
    await connection.attach(recorder.attachment);
    assert.deepEqual(await recorder.ended("quiet"), { code: 9 });
    assert.equal(recorder.text("quiet"), numbers(1, 10_000));
    assert.equal(recorder.text("quiet", "stderr"), "oops\n");
    await connection.ping();
  }
  await eventually(async () => {
    await using connection = await guest.open();
    const recorder = new Recorder();
    await connection.attach(recorder.attachment);
    assert.deepEqual(recorder.processes, []);
  });
});

test("a successor learns of running processes and goes on where its predecessor was", async () => {
  await using guest = await startGuest();
  let firstLength: number;
  let pid: number;
  {
    await using first = await guest.open();
    const recorder = new Recorder();
    await first.attach(recorder.attachment);
    ({ pid } = await first.spawn(
      shell("lives", `echo one; while [ ! -e ${guest.dir}/go ]; do sleep 0.02; done; echo two`),
    ));
    await eventually(() => assert.equal(recorder.text("lives"), "one\n"));
    firstLength = recorder.length("lives");
    // The answer to a ping shows that the acknowledgement before it has arrived.
    await new Promise((resolve) => setImmediate(resolve));
    await first.ping();
  }
  await using second = await guest.open();
  const offsets: number[] = [];
  const recorder = new Recorder();
  await second.attach({
    onConnected: recorder.onConnected,
    sink: {
      async output(token, stream, offset, chunk) {
        offsets.push(offset);
        await recorder.output(token, stream, offset - firstLength, chunk);
      },
      exit: (token, end) => recorder.exit(token, end),
    },
  });
  assert.deepEqual(recorder.processes, [{ token: "lives", pid, end: undefined }]);
  await second.files.write(`${guest.dir}/go`, Buffer.alloc(0));
  assert.deepEqual(await recorder.ended("lives"), { code: 0 });
  assert.equal(recorder.text("lives"), "two\n");
  assert.deepEqual(offsets, [4]);
});

test("a sink that fails is asked again with the same bytes", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const seen: string[] = [];
  let failures = 2;
  const end = Promise.withResolvers<void>();
  await connection.attach({
    onConnected: async () => undefined,
    sink: {
      async output(_token, stream, offset, chunk) {
        seen.push(`${stream} ${offset} ${chunk}`);
        if (failures-- > 0) throw new Error("the disk is full");
      },
      exit: async () => end.resolve(),
    },
  });
  await connection.spawn(shell("retried", "echo text"));
  await end.promise;
  assert.deepEqual(seen, ["stdout 0 text\n", "stdout 0 text\n", "stdout 0 text\n"]);
});

test("nothing is delivered before the list of processes was taken", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  await connection.spawn(shell("early", "echo early"));
  const order: string[] = [];
  const ends = { early: Promise.withResolvers<void>(), meanwhile: Promise.withResolvers<void>() };
  await connection.attach({
    onConnected: async (processes) => {
      order.push(`list ${processes.length}`);
      await connection.spawn(shell("meanwhile", "echo meanwhile"));
      await connection.ping();
      order.push("list taken");
    },
    sink: {
      output: async (token) => void order.push(token),
      exit: async (token) => {
        ends[token as keyof typeof ends].resolve();
      },
    },
  });
  await Promise.all([ends.early.promise, ends.meanwhile.promise]);
  assert.deepEqual(order.slice(0, 2), ["list 1", "list taken"]);
  assert.deepEqual(order.slice(2).sort(), ["early", "meanwhile"]);
});

test("a new control connection replaces the old one", async () => {
  await using guest = await startGuest();
  const lost = Promise.withResolvers<string>();
  await using first = await guest.open((reason) => lost.resolve(reason));
  await using second = await guest.open();
  assert.match(await lost.promise, /closed the control connection/);
  await assert.rejects(first.ping(), { code: "unavailable" });
  await second.ping();
});

// A sanitizer keeps memory of its own.
const skip = process.env.CATNAP_GUEST_BINARY !== undefined;

test("the guest's memory goes back once its windows are empty", { skip }, async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const recorder = new Recorder();
  await connection.attach(recorder.attachment);
  const gate = Promise.withResolvers<void>();
  const tokens = Array.from({ length: 40 }, (_, index) => `full${index}`);
  for (const token of tokens) {
    recorder.gates.set(token, gate.promise);
    await connection.spawn(shell(token, "head -c 300000 /dev/zero"));
  }
  const anonymousKb = () => Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${guest.pid}/status`, "utf8"))?.[1]);
  await eventually(() => assert.ok(anonymousKb() >= (tokens.length * windowBytes) / 1024));
  const fullKb = anonymousKb();
  gate.resolve();
  for (const token of tokens) assert.deepEqual(await recorder.ended(token), { code: 0 });
  await eventually(() => assert.ok(anonymousKb() <= fullKb - (tokens.length * windowBytes) / 1024 + 256));
});

test("disposing waits for what the sink has in its hands, and delivers nothing more", async () => {
  await using guest = await startGuest();
  const connection = await guest.open();
  const taken: string[] = [];
  const began = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  await connection.attach({
    onConnected: async () => undefined,
    sink: {
      async output(_token, stream) {
        began.resolve();
        await gate.promise;
        taken.push(stream);
      },
      exit: async () => void taken.push("exit"),
    },
  });
  await connection.spawn(shell("held", "echo one; echo two >&2"));
  await began.promise;
  const disposed = connection[Symbol.asyncDispose]();
  gate.resolve();
  await disposed;
  assert.equal(taken.length, 1);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(taken.length, 1);
});

test("a descendant that reads away what an ended process wrote delays no end", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const recorder = new Recorder();
  await connection.attach(recorder.attachment);
  const gate = Promise.withResolvers<void>();
  recorder.gates.set("robbed", gate.promise);
  const stolen = join(guest.dir, "stolen");
  // A window that nobody acknowledges and a full pipe behind it: the thief has the pipe alone once its parent is gone.
  const thief = `exec 3</proc/self/fd/1; while kill -0 $$; do sleep 0.02; done; head -c 65536 <&3 >${stolen}.new; mv ${stolen}.new ${stolen}`;
  await connection.spawn(
    shell("robbed", `(${thief}; exec sleep 300) 2>&- & head -c ${wideWindowBytes + 65_536} /dev/zero`),
  );
  await eventually(() => assert.equal(sizeOf(stolen), 65_536));
  gate.resolve();
  assert.deepEqual(await recorder.ended("robbed"), { code: 0 });
  assert.equal(recorder.length("robbed"), wideWindowBytes);
});
