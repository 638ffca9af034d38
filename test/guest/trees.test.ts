// Trees inside are walked and watched without following links, and sockets are told with the processes that hold them.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import * as fs from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { Change, FoundEntry, Guest, WalkOptions } from "../../src/sandbox-api/machine.ts";
import { eventually } from "../eventually.ts";
import { startGuest } from "./start-guest.ts";
import { missing, refused } from "./with-files.ts";

async function startWithTree(): Promise<{ dir: string; guest: Guest } & AsyncDisposable> {
  const started = await startGuest();
  const connection = await started.open();
  const dir = join(started.dir, "tree");
  fs.mkdirSync(dir);
  return {
    dir,
    guest: connection,
    async [Symbol.asyncDispose]() {
      await connection[Symbol.asyncDispose]();
      await started[Symbol.asyncDispose]();
    },
  };
}

const everything: WalkOptions = {
  files: true,
  directories: true,
  skipHidden: false,
  excludeDirs: [],
  entriesMax: 100_000,
};

async function walk({ trees }: Guest, path: string, options: Partial<WalkOptions> = {}): Promise<string[]> {
  const found: FoundEntry[] = [];
  for await (const batch of trees.walk(path, { ...everything, ...options })) found.push(...batch);
  return found.map(({ path: at, type }) => `${type} ${at}`).sort();
}

test("a walk names what lies below, but not what is left out, hidden or behind a link", async () => {
  await using session = await startWithTree();
  const { dir, guest } = session;
  fs.mkdirSync(join(dir, "a/b/node_modules/c"), { recursive: true });
  fs.mkdirSync(join(dir, ".git/objects"), { recursive: true });
  for (const name of ["one", "a/two", "a/b/three", "a/b/node_modules/c/four", ".git/five", ".hidden"]) {
    fs.writeFileSync(join(dir, name), "");
  }
  fs.symlinkSync("/", join(dir, "a/root"));
  execFileSync("mkfifo", [join(dir, "a/pipe")]);
  assert.deepEqual(await walk(guest, dir, { skipHidden: true, excludeDirs: ["node_modules"] }), [
    "directory a",
    "directory a/b",
    "file a/b/three",
    "file a/two",
    "file one",
    "other a/pipe",
    "symlink a/root",
  ]);
  assert.deepEqual(await walk(guest, dir, { files: false }), [
    "directory .git",
    "directory .git/objects",
    "directory a",
    "directory a/b",
    "directory a/b/node_modules",
    "directory a/b/node_modules/c",
  ]);
  assert.equal((await walk(guest, dir, { directories: false })).length, 8);
  assert.deepEqual(await walk(guest, join(dir, "a/b/node_modules/c")), ["file four"]);
});

test("a walk ends at its limit, and when the caller leaves", async () => {
  await using session = await startWithTree();
  const { dir, guest } = session;
  const count = 5_000;
  for (let index = 0; index < count; index++) fs.writeFileSync(join(dir, `${"n".repeat(100)}${index}`), "");
  assert.equal((await walk(guest, dir)).length, count);
  assert.equal((await walk(guest, dir, { entriesMax: 7 })).length, 7);
  assert.equal((await walk(guest, dir, { entriesMax: 0 })).length, 0);
  // More often than there are places, so that each is given back.
  for (let round = 0; round < 20; round++) {
    for await (const batch of guest.trees.walk(dir, everything)) {
      assert.ok(batch.length > 0);
      break;
    }
  }
});

test("a walk goes down as far as it can and does not enter the file systems of the kernel", async () => {
  await using session = await startWithTree();
  const { dir, guest } = session;
  execFileSync("python3", [
    "-c",
    `import os, sys
os.chdir(sys.argv[1])
for level in range(1000):
    open("file", "w").close(); os.mkdir("d"); os.chdir("d")`,
    dir,
  ]);
  const found = await walk(guest, dir, { directories: false });
  assert.ok(found.length >= 150 && found.length <= 1000, `${found.length} files`);
  const others = fs.readdirSync("/").filter((name) => name !== "proc" && name !== "sys");
  const roots = await walk(guest, "/", { files: false, excludeDirs: others });
  assert.ok(roots.includes("directory proc"));
  assert.ok(!roots.some((entry) => /^directory (proc|sys)\//.test(entry)));
});

test("a walk from what is no directory says why it cannot", async () => {
  await using session = await startWithTree();
  const { dir, guest } = session;
  fs.writeFileSync(join(dir, "file"), "");
  await assert.rejects(walk(guest, join(dir, "nothing")), missing);
  await assert.rejects(walk(guest, join(dir, "file")), refused("ENOTDIR"));
  await assert.rejects(walk(guest, dir, { excludeDirs: ["a\0b"] }), refused("EINVAL"));
  await assert.rejects(walk(guest, dir, { excludeDirs: Array(257).fill("a") }), refused("E2BIG"));
});

/** What was told so far; `untilTold` waits for more. */
async function watch({ trees }: Guest, path: string, options: { recursive?: boolean } = {}) {
  const stop = new AbortController();
  const changes = await trees.watch(path, { recursive: options.recursive ?? false, signal: stop.signal });
  const told: Change[] = [];
  const ended = (async () => {
    for await (const batch of changes) told.push(...batch);
  })();
  return {
    told,
    ended,
    texts: () => told.map((change) => `${change.kind} ${change.path}`),
    untilTold(wanted: string): Promise<void> {
      return eventually(() => {
        const isTold = told.some((change) => `${change.kind} ${change.path}` === wanted);
        assert.ok(isTold, `${wanted} was not told, but ${this.texts().slice(0, 50).join(", ")}`);
      });
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await ended;
    },
  };
}

test("what changes in a directory is told, in order and with its kind", async () => {
  await using session = await startWithTree();
  const { dir, guest } = session;
  fs.mkdirSync(join(dir, "below"));
  await using watching = await watch(guest, dir);
  fs.writeFileSync(join(dir, "file"), "content");
  fs.chmodSync(join(dir, "file"), 0o600);
  fs.renameSync(join(dir, "file"), join(dir, "moved"));
  fs.writeFileSync(join(dir, "below/unseen"), "");
  fs.rmSync(join(dir, "moved"));
  await watching.untilTold("remove moved");
  assert.deepEqual(watching.texts(), [
    "create file",
    "write file",
    "chmod file",
    "rename file",
    "create moved",
    "remove moved",
  ]);
  fs.rmSync(dir, { recursive: true });
  await watching.untilTold("remove ");
});

test("a single file can be watched", async () => {
  await using session = await startWithTree();
  const { dir, guest } = session;
  fs.writeFileSync(join(dir, "file"), "");
  await using watching = await watch(guest, join(dir, "file"), { recursive: true });
  fs.appendFileSync(join(dir, "file"), "more");
  await watching.untilTold("write ");
});

test("a tree is watched with what is made, moved in and moved away meanwhile", async () => {
  await using session = await startWithTree();
  const { dir, guest } = session;
  fs.mkdirSync(join(dir, "old/deep"), { recursive: true });
  const outside = join(dir, "../outside");
  fs.mkdirSync(join(outside, "in/ner"), { recursive: true });
  fs.writeFileSync(join(outside, "in/ner/file"), "");
  await using watching = await watch(guest, dir, { recursive: true });
  fs.writeFileSync(join(dir, "old/deep/one"), "1");
  await watching.untilTold("write old/deep/one");
  // Everything below a new directory is told, whether it was made before or after the watch could follow.
  fs.mkdirSync(join(dir, "new/a/b/c"), { recursive: true });
  fs.writeFileSync(join(dir, "new/a/b/c/two"), "2");
  await watching.untilTold("create new/a/b/c/two");
  fs.renameSync(join(outside, "in"), join(dir, "in"));
  await watching.untilTold("create in/ner/file");
  fs.writeFileSync(join(dir, "in/ner/three"), "3");
  await watching.untilTold("write in/ner/three");
  fs.renameSync(join(dir, "in"), join(dir, "renamed"));
  await watching.untilTold("create renamed/ner/file");
  fs.appendFileSync(join(dir, "renamed/ner/three"), "3");
  await watching.untilTold("write renamed/ner/three");
  fs.renameSync(join(dir, "renamed"), join(outside, "gone"));
  await watching.untilTold("rename renamed");
  const before = watching.told.length;
  fs.writeFileSync(join(outside, "gone/ner/four"), "");
  fs.writeFileSync(join(dir, "last"), "");
  await watching.untilTold("create last");
  assert.deepEqual(
    watching.told.slice(before).filter(({ path }) => !path.startsWith("last")),
    [],
  );
});

test("a tree is watched through a link that leads to it", async () => {
  await using session = await startWithTree();
  const { dir, guest } = session;
  fs.mkdirSync(join(dir, "real/below"), { recursive: true });
  fs.symlinkSync("real", join(dir, "link"));
  await using watching = await watch(guest, join(dir, "link"), { recursive: true });
  fs.writeFileSync(join(dir, "real/below/file"), "1");
  await watching.untilTold("write below/file");
});

test("ten thousand files made at once are all told, or that changes are missing", async () => {
  await using session = await startWithTree();
  const { dir, guest } = session;
  await using watching = await watch(guest, dir, { recursive: true });
  const script = `import os, sys
os.chdir(sys.argv[1])
for name in range(10000): open("f%d" % name, "w").close()
open("last", "w").close()`;
  execFileSync("python3", ["-c", script, dir]);
  await watching.untilTold("create last");
  const overflowed = watching.told.some(({ kind }) => kind === "overflow");
  const created = new Set(watching.told.filter(({ kind }) => kind === "create").map(({ path }) => path));
  assert.ok(overflowed || created.size === 10_001, `${created.size} told, and no word of an overflow`);
});

test("a receiver that does not read learns that changes are missing", async () => {
  await using session = await startWithTree();
  const { dir, guest } = session;
  const stop = new AbortController();
  const changes = await guest.trees.watch(dir, { recursive: false, signal: stop.signal });
  const script = `import os, sys
os.chdir(sys.argv[1])
for round in range(20000): os.mkdir("d%d" % round); os.rmdir("d%d" % round)`;
  execFileSync("python3", ["-c", script, dir]);
  fs.writeFileSync(join(dir, "after"), "");
  let overflowed = false;
  // The one that makes room again may itself be lost, so changes go on until one is told.
  const writer = spawn("sh", ["-c", 'while true; do echo >> "$0/after"; sleep 0.05; done', dir]);
  try {
    for await (const batch of changes) {
      overflowed ||= batch.some(({ kind }) => kind === "overflow");
      if (batch.some(({ path }) => path === "after")) break;
    }
  } finally {
    writer.kill("SIGKILL");
    stop.abort();
  }
  assert.ok(overflowed);
});

test("watches are limited, and places are given back whether they were read or not", async () => {
  await using session = await startWithTree();
  const { dir, guest } = session;
  for (let round = 0; round < 3; round++) {
    const stop = new AbortController();
    const options = { recursive: false, signal: stop.signal };
    await Promise.all(Array.from({ length: 20 }, () => guest.trees.watch(dir, options)));
    await assert.rejects(guest.trees.watch(dir, options), { code: "rate_limited" });
    stop.abort();
  }
  await assert.rejects(watch(guest, join(dir, "nothing")), missing);
});

async function listen(server: Server, host: string): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  return (server.address() as { port: number }).port;
}

test("sockets are told with their addresses, states and holders", async () => {
  await using session = await startWithTree();
  const { guest } = session;
  await using four = createServer();
  await using six = createServer();
  const ports = { four: await listen(four, "127.0.0.1"), six: await listen(six, "::1") };
  const sockets = await guest.sockets();
  const of = (port: number) => sockets.find(({ localPort }) => localPort === port);
  assert.deepEqual(
    { ...of(ports.four), processName: "" },
    {
      pid: process.pid,
      processName: "",
      protocol: "tcp",
      state: "LISTEN",
      localAddress: "127.0.0.1",
      localPort: ports.four,
      remoteAddress: "0.0.0.0",
      remotePort: 0,
    },
  );
  assert.equal(of(ports.six)?.localAddress, "::1");
  assert.equal(of(ports.six)?.state, "LISTEN");
  assert.ok((await guest.sockets(process.pid)).some(({ localPort }) => localPort === ports.four));
});

test("sockets of one process are its own and its descendants', also of those that went to the background", async () => {
  await using session = await startWithTree();
  const { dir, guest } = session;
  const script = `import os, socket, sys, time
listener = socket.socket(); listener.bind(("127.0.0.1", 0)); listener.listen()
if os.fork() == 0:
    if os.fork() == 0:
        other = socket.socket(); other.bind(("127.0.0.1", 0)); other.listen()
        open(sys.argv[1] + "/port", "w").write("%d %d\\n" % (listener.getsockname()[1], other.getsockname()[1]))
        time.sleep(600)
    os._exit(0)
time.sleep(600)`;
  const argv = ["python3", "-c", script, dir];
  const { pid } = await guest.spawn({ token: "ports", argv, workingDir: "/", environment: { PATH: "/usr/bin:/bin" } });
  const read = (): string => (fs.existsSync(join(dir, "port")) ? fs.readFileSync(join(dir, "port"), "utf8") : "");
  await eventually(() => assert.ok(read().endsWith("\n"), "the background program has not said its port"));
  const wanted = read().trim().split(" ").map(Number);
  const found = (await guest.sockets(pid)).map(({ localPort }) => localPort);
  assert.deepEqual(found.sort(), wanted.sort());
  assert.deepEqual(await guest.sockets(0x7fff_fffe), []);
  await guest.signal("ports", 9);
});

test("whoever takes batches slowly still hears the end of a walk", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  for (let index = 0; index < 20_000; index++) fs.writeFileSync(join(guest.dir, `file-${index}`), "");
  let count = 0;
  for await (const batch of connection.trees.walk(guest.dir, { ...everything, directories: false })) {
    count += batch.filter(({ type }) => type === "file").length;
    for (let turn = 0; turn < 50; turn++) await setImmediate();
  }
  assert.equal(count, 20_000);
});
