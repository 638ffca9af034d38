// Work inside that takes long: its host hears of it meanwhile, is never kept waiting for ever, and leaves nothing behind when it goes.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { mkdtempDisposable } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { encodeHello, type Frame, FrameReader, FrameWriter } from "../../src/host/guest/frames.ts";
import { frameType } from "../../src/host/guest/protocol.ts";
import { encodeSockets, encodeWalk, encodeWatch } from "../../src/host/guest/tree-messages.ts";
import { ConnectedTrees } from "../../src/host/guest/trees.ts";
import type { Change, ChangeKind } from "../../src/sandbox-api/machine.ts";
import { eventually } from "../eventually.ts";
import { startFakeGuest } from "./fake-guest.ts";
import { startGuest } from "./start-guest.ts";

/** 3,000 times the same 3,000 directories: minutes of work without a file anywhere. */
const vast = `
import ctypes, os, sys
tree = "/mnt/tree"
libc = ctypes.CDLL(None, use_errno=True)
def mount(source, target, kind, flags):
    if libc.mount(source, target, kind, flags, None) != 0: raise OSError(ctypes.get_errno(), "mount")
mount(b"none", b"/mnt", b"tmpfs", 0)
os.makedirs("/mnt/one")
for index in range(3000): os.mkdir("/mnt/one/%d" % index)
for index in range(3000):
    os.makedirs("%s/%d" % (tree, index)); mount(b"/mnt/one", b"%s/%d" % (tree.encode(), index), None, 4096)
os.execv(sys.argv[1], sys.argv[1:])
`;

function readFrames(socketPath: string, request: Buffer): { frames: Frame[]; close(): void } {
  const socket = connect({ path: socketPath });
  const reader = new FrameReader(100_000);
  const frames: Frame[] = [];
  socket.on("error", () => undefined);
  socket.on("data", (piece: Buffer) => {
    reader.push(piece);
    for (let frame = reader.next(); frame !== undefined; frame = reader.next()) frames.push(frame);
  });
  socket.write(Buffer.concat([encodeHello(2), request]));
  return { frames, close: () => void socket.destroy() };
}

test("a walk without end that finds nothing says that it goes on, and ends with its host, as does a watch", {
  timeout: 120_000,
}, async () => {
  await using guest = await startGuest({ under: ["unshare", "--mount", "python3", "-c", vast] });
  await using connection = await guest.open();
  await connection.ping({ timeoutMs: 60_000 });
  const workers = (): string[] =>
    readFileSync(`/proc/${guest.pid}/task/${guest.pid}/children`, "utf8").split(" ").filter(Boolean);
  const files = { files: true, directories: false, skipHidden: false, excludeDirs: [], entriesMax: 1_000_000 };
  const walk = readFrames(guest.socketPath, encodeWalk("/mnt/tree", files));
  await eventually(() => assert.ok(walk.frames.length >= 3));
  assert.ok(walk.frames.every(({ type, payload }) => type === frameType.found && payload.length === 0));
  assert.equal(workers().length, 1);
  walk.close();
  await eventually(() => assert.deepEqual(workers(), []));
  const watch = readFrames(guest.socketPath, encodeWatch("/mnt/tree", true));
  await eventually(() => assert.equal(workers().length, 1));
  watch.close();
  await eventually(() => assert.deepEqual(workers(), []));
});

test("what a walk has found comes at once although it goes on", { timeout: 120_000 }, async () => {
  await using guest = await startGuest({ under: ["unshare", "--mount", "python3", "-c", vast] });
  await using connection = await guest.open();
  await connection.ping({ timeoutMs: 60_000 });
  await connection.files.write("/mnt/a-file", Buffer.from("x"));
  const options = { files: true, directories: false, skipHidden: false, excludeDirs: [], entriesMax: 1_000_000 };
  for await (const batch of connection.trees.walk("/mnt", options)) {
    assert.deepEqual(batch, [{ type: "file", path: "a-file" }]);
    break;
  }
});

test("a tree of thirty thousand directories that is moved out of a watched one is let go of, and what stays is told", {
  timeout: 120_000,
}, async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  // In memory: to make and remove so many takes a disk long.
  await using scratch = await mkdtempDisposable("/dev/shm/catnap-walks-");
  const watched = join(scratch.path, "watched");
  for (let index = 0; index < 30_000; index++) {
    mkdirSync(join(watched, `tree/${index % 30}/${index}`), { recursive: true });
  }
  mkdirSync(join(watched, "stays"));
  const stop = new AbortController();
  const told: Change[] = [];
  const changes = await connection.trees.watch(watched, { recursive: true, signal: stop.signal });
  const ended = (async () => {
    for await (const batch of changes) told.push(...batch);
  })();
  const tells = (kind: ChangeKind, path: string) => () =>
    assert.ok(told.some((change) => change.kind === kind && change.path === path));
  renameSync(join(watched, "tree"), join(scratch.path, "moved"));
  await eventually(tells("rename", "tree"));
  for (let round = 0; round < 100; round++) writeFileSync(join(scratch.path, `moved/3/3/${round}`), "");
  writeFileSync(join(watched, "stays/file"), "");
  // The kernel's queue may have been full of the watches that went: then the host learns that.
  await eventually(() =>
    assert.ok(told.some(({ kind, path }) => kind === "overflow" || (kind === "create" && path === "stays/file"))),
  );
  writeFileSync(join(watched, "stays/another"), "");
  await eventually(tells("create", "stays/another"));
  assert.ok(!told.some(({ path }) => path.startsWith("tree/")));
  stop.abort();
  await ended;
});

const patience = { answerTimeoutMs: 500, walkTimeoutMs: 1_000 };

/** Says a little, again and again, and never comes to an end. */
async function dribbling(frame: Buffer): Promise<AsyncDisposable & { trees: ConnectedTrees; isOpen(): boolean }> {
  let open = 0;
  const fake = await startFakeGuest({
    onWorker(socket) {
      open += 1;
      const timer = setInterval(() => socket.write(frame), 20);
      socket.once("close", () => {
        open -= 1;
        clearInterval(timer);
      });
    },
  });
  const onViolation = (error: Error): never => assert.fail(error);
  const trees = new ConnectedTrees({ socketPath: fake.socketPath, onViolation, patience });
  return { trees, isOpen: () => open > 0, [Symbol.asyncDispose]: () => fake[Symbol.asyncDispose]() };
}

test("a guest whose walk or list of sockets never ends is left", async () => {
  const options = { files: true, directories: true, skipHidden: false, excludeDirs: [], entriesMax: 1_000_000 };
  for (const found of [new FrameWriter(), new FrameWriter().u8(0).text("one")]) {
    await using guest = await dribbling(found.frame(frameType.found, 0));
    await assert.rejects(
      async () => {
        for await (const batch of guest.trees.walk("/", options)) assert.equal(batch.length, 1);
      },
      { code: "timeout" },
    );
    await eventually(() => assert.ok(!guest.isOpen()));
  }
  const socket = new FrameWriter().u32(0).u8(1).u8(4).u8(10).bytes(Buffer.alloc(40)).text("");
  await using guest = await dribbling(socket.frame(frameType.socketList, 0));
  await assert.rejects(guest.trees.sockets(), { code: "timeout" });
  await eventually(() => assert.ok(!guest.isOpen()));
});

test("the sockets of a long chain of processes are told, down to its last", async () => {
  await using guest = await startGuest({ under: ["unshare", "--net"] });
  await using connection = await guest.open();
  const script = `import os, socket, sys, time
listener = socket.socket(); listener.bind(("0.0.0.0", 0)); listener.listen()
for level in range(60):
    if os.fork() != 0: time.sleep(600); os._exit(0)
last = socket.socket(); last.bind(("0.0.0.0", 8099)); last.listen()
print("up", flush=True); time.sleep(600)`;
  const started = await connection.spawn({
    token: "chain",
    argv: ["python3", "-c", script],
    workingDir: "/",
    environment: { PATH: process.env.PATH ?? "" },
  });
  const ports = async (): Promise<number[]> =>
    (await connection.sockets(started.pid)).map(({ localPort }) => localPort);
  await eventually(async () => assert.ok((await ports()).includes(8099)));
  assert.equal((await ports()).length, 2);
  const frames = readFrames(guest.socketPath, encodeSockets(1));
  await eventually(() => assert.equal(frames.frames.at(-1)?.type, frameType.done));
  frames.close();
  await connection.signal("chain", 9);
});
