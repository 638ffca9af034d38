// What is written to a process: every byte once and in order, however slowly it reads and whoever the host is.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import type { GuestConnection } from "../../src/host/guest/guest.ts";
import { eventually } from "../eventually.ts";
import { startFakeGuest } from "./fake-guest.ts";
import { Recorder } from "./recorder.ts";
import { startAttached } from "./start-attached.ts";
import { startGuest } from "./start-guest.ts";

const environment = { PATH: "/usr/bin:/bin" };

function shell(token: string, script: string) {
  return { token, argv: ["sh", "-c", script], workingDir: "/", environment, stdin: "pipe" as const };
}

/** Bytes that show where each of them belongs. */
function counted(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at + 4 <= length; at += 4) bytes.writeUInt32BE(at / 4, at);
  return bytes;
}

function digest(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}

test("a program reads what is written to it, then the end", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  await connection.spawn(shell("cat", "cat; echo over"));
  assert.deepEqual(await connection.writeStdin("cat", Buffer.from("one ")), { taken: 4 });
  assert.deepEqual(await connection.writeStdin("cat", Buffer.from("two ")), { taken: 8 });
  assert.deepEqual(await connection.writeStdin("cat", Buffer.alloc(0)), { taken: 8 });
  await eventually(() => assert.equal(recorder.text("cat"), "one two "));
  const gate = Promise.withResolvers<void>();
  recorder.gates.set("cat", gate.promise);
  await connection.closeStdin("cat");
  await connection.closeStdin("cat");
  gate.resolve();
  assert.deepEqual(await recorder.ended("cat"), { code: 0 });
  assert.equal(recorder.text("cat"), "one two over\n");
});

test("10 MiB arrive byte for byte, written at once and in pieces by several writers", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  const bytes = counted(10 * 1024 * 1024);
  await connection.spawn(shell("sum", "sha256sum"));
  assert.deepEqual(await connection.writeStdin("sum", bytes), { taken: bytes.length });
  await connection.closeStdin("sum");
  await recorder.ended("sum");
  assert.equal(recorder.text("sum"), `${digest(bytes)}  -\n`);

  await connection.spawn(shell("parts", "sha256sum"));
  const pieces = Array.from({ length: 40 }, (_, index) => bytes.subarray(index * 100_000, (index + 1) * 100_000));
  await Promise.all(pieces.map((piece) => connection.writeStdin("parts", piece)));
  await connection.closeStdin("parts");
  await recorder.ended("parts");
  assert.equal(recorder.text("parts"), `${digest(bytes.subarray(0, 4_000_000))}  -\n`);
});

test("a write waits for a process that does not read, and goes on where it was; nobody else waits", async () => {
  await using session = await startAttached();
  const { guest, connection, recorder } = session;
  const bytes = counted(300_000);
  await connection.spawn(shell("late", `while [ ! -e ${guest.dir}/go ]; do sleep 0.01; done; sha256sum`));
  let isWritten = false;
  const written = connection.writeStdin("late", bytes).then(() => {
    isWritten = true;
  });
  for (let other = 0; other < 10; other++) {
    await connection.spawn(shell(`other${other}`, "cat"));
    await connection.writeStdin(`other${other}`, Buffer.from("x"));
    await connection.closeStdin(`other${other}`);
    await recorder.ended(`other${other}`);
  }
  assert.equal(isWritten, false);
  writeFileSync(`${guest.dir}/go`, "");
  await written;
  await connection.closeStdin("late");
  await recorder.ended("late");
  assert.equal(recorder.text("late"), `${digest(bytes)}  -\n`);
});

test("a write that is given up says nothing twice: the next goes on behind what was taken", async () => {
  await using session = await startAttached();
  const { guest, connection, recorder } = session;
  const bytes = counted(200_000);
  await connection.spawn(shell("given", `while [ ! -e ${guest.dir}/go ]; do sleep 0.01; done; sha256sum`));
  const abort = new AbortController();
  const given = connection.writeStdin("given", bytes, { offset: 0, signal: abort.signal });
  // A pipe's worth is taken by then.
  await eventually(async () => assert.ok((await takenOf(connection, "given")) > 0));
  abort.abort(new Error("given up"));
  await assert.rejects(given, { message: "given up" });
  const repeated = connection.writeStdin("given", bytes, { offset: 0 });
  writeFileSync(`${guest.dir}/go`, "");
  assert.deepEqual(await repeated, { taken: bytes.length });
  await connection.closeStdin("given");
  await recorder.ended("given");
  assert.equal(recorder.text("given"), `${digest(bytes)}  -\n`);
});

/** How much a process was given, asked past the writers that wait. */
async function takenOf(connection: GuestConnection, token: string): Promise<number> {
  const error = await connection
    .writeStdin(token, Buffer.alloc(0), { offset: 0, signal: AbortSignal.timeout(20) })
    .then(({ taken }) => ({ taken }))
    .catch(() => ({ taken: 65_536 }));
  return error.taken;
}

test("a successor learns how much was taken, and repeats the rest without doubling a byte", async () => {
  await using guest = await startGuest();
  const bytes = counted(500_000);
  {
    await using first = await guest.open();
    await first.spawn(shell("moved", `while [ ! -e ${guest.dir}/go ]; do sleep 0.01; done; cat`));
    await first.writeStdin("moved", bytes.subarray(0, 30_000));
    // More than the pipe holds: its answer never comes.
    const cut = first.writeStdin("moved", bytes.subarray(30_000, 200_000), { offset: 30_000 });
    await first.ping();
    await first[Symbol.asyncDispose]();
    await assert.rejects(cut, { code: "unavailable" });
  }
  await using second = await guest.open();
  const recorder = new Recorder();
  await second.attach(recorder.attachment);
  const { stdin } = recorder.processes[0]!;
  assert.ok(stdin!.isOpen && !stdin!.isTerminal && stdin!.taken >= 30_000 && stdin!.taken < 200_000);
  writeFileSync(`${guest.dir}/go`, "");
  // From before what was taken: the guest knows those bytes.
  assert.deepEqual(await second.writeStdin("moved", bytes.subarray(10_000), { offset: 10_000 }), {
    taken: bytes.length,
  });
  await second.closeStdin("moved", { offset: bytes.length });
  await recorder.ended("moved");
  assert.ok(recorder.bytes("moved").equals(bytes));
});

test("a program that closes its input, has none or has ended refuses bytes, each in its own way", async () => {
  await using session = await startAttached();
  const { guest, connection, recorder } = session;
  const mark = `${guest.dir}/closed`;
  await connection.spawn(shell("closes", `exec < /dev/null; touch ${mark}; exec sleep 60`));
  await eventually(() => assert.ok(existsSync(mark)));
  const error = { code: "unprocessable", details: { errno: "EPIPE", taken: 0 } };
  await assert.rejects(connection.writeStdin("closes", Buffer.from("x")), error);
  await assert.rejects(connection.writeStdin("closes", Buffer.from("x")), error);
  await connection.closeStdin("closes");
  await connection.signal("closes", 9);
  await recorder.ended("closes");
  await assert.rejects(connection.writeStdin("closes", Buffer.from("x")), { code: "not_found" });
  await assert.rejects(connection.writeStdin("never", Buffer.from("x")), { code: "not_found" });

  await connection.spawn({ token: "none", argv: ["sleep", "60"], workingDir: "/", environment });
  const none = { code: "unprocessable", details: { errno: "EBADF", taken: 0 } };
  await assert.rejects(connection.writeStdin("none", Buffer.from("x")), none);
  await assert.rejects(connection.resizeTerminal("none", { columns: 80, rows: 24 }), { details: { errno: "ENOTTY" } });
  await connection.signal("none", 9);

  await connection.spawn(shell("gap", "cat"));
  const gap = { code: "unprocessable", details: { errno: "EINVAL", taken: 0 } };
  await assert.rejects(connection.writeStdin("gap", Buffer.from("x"), { offset: 1 }), gap);
  await assert.rejects(connection.writeStdin("gap", Buffer.from("x"), { offset: -1 }), { code: "invalid_request" });
  await connection.writeStdin("gap", Buffer.from("all"));
  await connection.closeStdin("gap");
  await recorder.ended("gap");
  assert.equal(recorder.text("gap"), "all");
});

test("a write that waits ends with the process", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  await connection.spawn(shell("dies", "exec sleep 60"));
  const waiting = assert.rejects(connection.writeStdin("dies", Buffer.alloc(200_000)), (error: { code: string }) => {
    return error.code === "unprocessable" || error.code === "not_found";
  });
  await connection.signal("dies", 9);
  await recorder.ended("dies");
  await waiting;
  await connection.ping();
});

const skip = process.env.CATNAP_GUEST_BINARY !== undefined;

test("what is not taken does not wait in the init", { skip }, async () => {
  await using session = await startAttached();
  const { guest, connection } = session;
  const anonymousKb = () => Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${guest.pid}/status`, "utf8"))?.[1]);
  const beforeKb = anonymousKb();
  const stop = new AbortController();
  const writes = Array.from({ length: 30 }, async (_, index) => {
    await connection.spawn(shell(`deaf${index}`, "exec sleep 60"));
    const { signal } = stop;
    await assert.rejects(connection.writeStdin(`deaf${index}`, Buffer.alloc(1_000_000), { signal }), /stopped/);
  });
  await eventually(async () => {
    await connection.ping();
    assert.ok(anonymousKb() < beforeKb + 512);
  });
  stop.abort(new Error("stopped"));
  await Promise.all(writes);
  for (let index = 0; index < 30; index++) await connection.signal(`deaf${index}`, 9);
});

test("an init of an earlier build is told apart, and asked nothing it does not know", async () => {
  await using fake = await startFakeGuest({ hello: Buffer.from("CATN\x01\x00\x01\x00", "latin1") });
  await using connection = await fake.open();
  const old = { code: "unprocessable", details: { ability: "input" } };
  await assert.rejects(connection.spawn(shell("a", "cat")), old);
  const terminal = { columns: 80, rows: 24 };
  await assert.rejects(connection.spawn({ ...shell("b", "cat"), stdin: undefined, terminal }), old);
  await assert.rejects(connection.writeStdin("a", Buffer.from("x")), old);
  await assert.rejects(connection.closeStdin("a"), old);
  await assert.rejects(connection.resizeTerminal("a", terminal), old);
});
