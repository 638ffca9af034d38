// The workers behind file operations: many at once, and no more than the guest allows.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { eventually } from "../eventually.ts";
import { startGuest } from "./start-guest.ts";
import { missing, readAll, refused } from "./with-files.ts";

test("1,000 operations at once all succeed, and no worker stays", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const { files } = connection;
  const dir = join(guest.dir, "many");
  await Promise.all(
    Array.from({ length: 500 }, (_, index) => files.write(join(dir, String(index)), Buffer.from(`${index}`))),
  );
  const bodies = await Promise.all(Array.from({ length: 500 }, (_, index) => readAll(files, join(dir, String(index)))));
  assert.deepEqual(
    bodies.map(String),
    Array.from({ length: 500 }, (_, index) => `${index}`),
  );
  await eventually(() => assert.throws(() => execFileSync("ps", ["--ppid", String(guest.pid)])));
});

function workersOf(pid: number): number[] {
  const listed = spawnSync("ps", ["--ppid", String(pid), "-o", "pid="], { encoding: "utf8" });
  return listed.stdout
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map(Number);
}

/** Lets no time pass for the host's kept workers, which it would let go of while a slow machine looks at them. */
function keepWorkers(context: TestContext): void {
  const now = performance.now();
  context.mock.method(performance, "now", () => now);
}

test("operations that follow one another are served by one worker, whatever they are", async (context) => {
  keepWorkers(context);
  await using guest = await startGuest();
  await using connection = await guest.open();
  const { files } = connection;
  const path = join(guest.dir, "one", "file");
  await files.write(path, Buffer.from("first"));
  const [worker, ...others] = workersOf(guest.pid);
  assert.deepEqual(others, []);
  for (const text of ["", "x", "y".repeat(100_000)]) {
    await files.write(path, Buffer.from(text), { mode: 0o640 });
    assert.equal((await readAll(files, path)).toString(), text);
    assert.equal((await files.stat(path)).mode, 0o640);
    assert.equal((await files.setMode(path, 0o600)).mode, 0o600);
    await files.makeDirectory(join(guest.dir, "one", "more"));
    assert.deepEqual(
      (await files.list(join(guest.dir, "one"))).map(({ name }) => name),
      ["file", "more"],
    );
  }
  assert.deepEqual(workersOf(guest.pid), [worker]);
  assert.equal(readdirSync(`/proc/${worker}/fd`).length, 4, "no operation leaves a descriptor open");
});

test("a kept worker that was killed or has failed is not asked again", async (context) => {
  keepWorkers(context);
  await using guest = await startGuest();
  await using connection = await guest.open();
  const { files } = connection;
  await files.stat("/");
  const [killed] = workersOf(guest.pid);
  process.kill(killed!, "SIGKILL");
  // The loop is not given the time to hear of it.
  assert.equal((await files.stat("/")).type, "directory");
  const [before] = workersOf(guest.pid);
  await assert.rejects(files.stat("/none"), missing);
  assert.equal((await files.stat("/")).type, "directory");
  await eventually(() => assert.ok(!workersOf(guest.pid).includes(before!)));
});

test("a body that is not read to its end leaves no worker behind", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const { files } = connection;
  const path = join(guest.dir, "large");
  writeFileSync(path, Buffer.alloc(8 * 1024 * 1024, 1));
  const { body } = await files.read(path);
  body.destroy();
  await eventually(() => assert.deepEqual(workersOf(guest.pid), []));
  assert.equal((await readAll(files, path)).length, 8 * 1024 * 1024);
  assert.equal((await readAll(files, path, { offset: 5, length: 3 })).length, 3);
});

test("kept workers and everything one host has under way are fewer than the guest allows", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const { files, trees } = connection;
  await Promise.all(Array.from({ length: 40 }, () => files.stat("/")));
  const stop = new AbortController();
  const bodies = Array.from({ length: 96 }, () => new Readable({ read: () => undefined }));
  const written = bodies.map((body, index) =>
    files.write(join(guest.dir, String(index)), body, { signal: stop.signal }).catch((error: unknown) => error),
  );
  const watched = Array.from({ length: 20 }, () => trees.watch("/", { recursive: false, signal: stop.signal }));
  await Promise.all(watched);
  for (const body of bodies) body.push(null);
  for (const result of await Promise.all(written)) assert.ok(!(result instanceof Error), String(result));
  stop.abort();
});

test("a body that fails while nobody reads it yet fails whoever reads it", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const path = join(guest.dir, "large");
  writeFileSync(path, Buffer.alloc(8 * 1024 * 1024, 1));
  const { body } = await connection.files.read(path);
  for (const pid of workersOf(guest.pid)) process.kill(pid, "SIGKILL");
  body.read(0);
  await eventually(() => {
    body.read();
    assert.ok(body.errored);
  });
  await assert.rejects(buffer(body), /became shorter/);
});

test("workers end with the connection they serve", async (context) => {
  keepWorkers(context);
  await using guest = await startGuest();
  {
    await using connection = await guest.open();
    await connection.files.stat("/");
    assert.equal(workersOf(guest.pid).length, 1);
  }
  await eventually(() => assert.deepEqual(workersOf(guest.pid), []));
});

test("workers beyond the guest's limit are refused with a reason, and the init goes on", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  // Raw connections that say hello and then nothing hold a worker each.
  const hello = Buffer.from([0x43, 0x41, 0x54, 0x4e, 1, 0, 2, 0]);
  const sockets = await Promise.all(
    Array.from({ length: 140 }, async () => {
      const socket = connect(guest.socketPath);
      await once(socket, "connect");
      socket.write(hello);
      return socket;
    }),
  );
  const refusals: Buffer[] = [];
  for (const socket of sockets) socket.on("data", (data: Buffer) => refusals.push(data));
  await eventually(() => assert.equal(refusals.length, 12));
  for (const refusal of refusals) assert.equal(refusal.toString("hex"), "0d00000065000000000b00000004000000666f726b00");
  await assert.rejects(connection.files.stat("/"), refused("EAGAIN"));
  await connection.ping();
  for (const socket of sockets) socket.destroy();
  await eventually(() => connection.files.stat("/"));
});
