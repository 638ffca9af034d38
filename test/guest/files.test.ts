// Files inside, through workers of the guest: what is asked for happens, and nothing else, whatever lies at the paths.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { test } from "node:test";
import type { GuestFiles } from "../../src/sandbox-api/machine.ts";
import { eventually } from "../eventually.ts";
import { startGuest } from "./start-guest.ts";

async function startWithFiles(): Promise<{ dir: string; files: GuestFiles } & AsyncDisposable> {
  const guest = await startGuest();
  const connection = await guest.open();
  const dir = join(guest.dir, "files");
  fs.mkdirSync(dir);
  return {
    dir,
    files: connection.files,
    async [Symbol.asyncDispose]() {
      await connection[Symbol.asyncDispose]();
      await guest[Symbol.asyncDispose]();
    },
  };
}

const missing = { code: "not_found", details: { errno: "ENOENT" } };
const refused = (errno: string) => ({ code: "unprocessable", details: { errno } });

async function read(files: GuestFiles, path: string, range?: { offset: number; length?: number }): Promise<Buffer> {
  return buffer((await files.read(path, range)).body);
}

/** Names in a directory that uploads leave while they are under way. */
function temporaries(dir: string): string[] {
  return fs.readdirSync(dir).filter((name) => name.startsWith(".catnap-"));
}

test("attributes are those of the file, with names of owners", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  const path = join(dir, "file");
  fs.writeFileSync(path, "12345");
  fs.chmodSync(path, 0o4751);
  fs.chownSync(path, 1, 54321);
  fs.chmodSync(path, 0o4751);
  fs.utimesSync(path, 1_600_000_000.25, 1_600_000_000.25);
  assert.deepEqual(await files.stat(path), {
    name: "file",
    type: "file",
    sizeBytes: 5,
    mode: 0o4751,
    uid: 1,
    gid: 54321,
    owner: "daemon",
    group: "54321",
    modifiedAtMs: 1_600_000_000_250,
  });
  assert.equal((await files.stat(`${dir}/`)).type, "directory");
  assert.equal((await files.stat("/")).name, "/");
  assert.equal((await files.stat("/dev/null")).type, "other");
  await assert.rejects(files.stat(join(dir, "none")), missing);
  await assert.rejects(files.stat(join(path, "below")), refused("ENOTDIR"));
  await assert.rejects(files.stat("relative"), refused("EINVAL"));
  await assert.rejects(files.stat("/with\0zero"), refused("EINVAL"));
  await assert.rejects(files.stat(`/${"x".repeat(300)}`), refused("ENAMETOOLONG"));
});

test("stat follows links, and describes one that leads nowhere", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  fs.symlinkSync(dir, join(dir, "to-directory"));
  fs.symlinkSync("nowhere", join(dir, "dangling"));
  fs.symlinkSync("loop", join(dir, "loop"));
  assert.equal((await files.stat(join(dir, "to-directory"))).type, "directory");
  assert.equal((await files.stat(join(dir, "dangling"))).type, "symlink");
  await assert.rejects(files.stat(join(dir, "loop")), refused("ELOOP"));
});

test("a list has every entry in name order, up to the limit", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  assert.deepEqual(await files.list(dir), []);
  const names = Array.from({ length: 3_000 }, (_, index) => `${"entry".repeat(index % 40)}-${index}-ü`);
  for (const name of names) fs.writeFileSync(join(dir, name), name);
  fs.mkdirSync(join(dir, "directory"));
  fs.symlinkSync("directory", join(dir, "link"));
  execFileSync("mkfifo", [join(dir, "pipe")]);
  const entries = await files.list(dir);
  assert.deepEqual(
    entries.map(({ name }) => name),
    [...names, "directory", "link", "pipe"].sort(),
  );
  const types = new Map(entries.map(({ name, type }) => [name, type]));
  assert.deepEqual(
    ["directory", "link", "pipe", names[7]!].map((name) => types.get(name)),
    ["directory", "symlink", "other", "file"],
  );
  assert.equal((await files.list(dir, 3_003)).length, 3_003);
  await assert.rejects(files.list(dir, 3_002), refused("EOVERFLOW"));
  await assert.rejects(files.list(join(dir, names[0]!)), refused("ENOTDIR"));
  await assert.rejects(files.list(join(dir, "none")), missing);
});

test("a read gives the bytes of a range", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  const path = join(dir, "file");
  const content = Buffer.from(Array.from({ length: 1_000_000 }, (_, index) => (index * 7) % 251));
  fs.writeFileSync(path, content);
  const { info, body } = await files.read(path);
  assert.equal(info.sizeBytes, content.length);
  assert.ok((await buffer(body)).equals(content));
  const ranges = [
    [0, 1],
    [0, 0],
    [5, 100_000],
    [999_999, 5],
    [1_000_000, 1],
    [5_000_000, 1],
  ] as const;
  for (const [offset, length] of ranges) {
    const part = await read(files, path, { offset, length });
    assert.ok(part.equals(content.subarray(offset, offset + length)), `${offset} ${length}`);
  }
  assert.ok((await read(files, path, { offset: 999_000 })).equals(content.subarray(999_000)));
  fs.writeFileSync(path, "");
  assert.equal((await read(files, path)).length, 0);
});

test("files that do not know their size are read whole", async () => {
  await using session = await startWithFiles();
  const { files } = session;
  const { info, body } = await files.read("/proc/version");
  const content = await buffer(body);
  assert.equal(content.toString(), fs.readFileSync("/proc/version", "utf8"));
  assert.equal(info.sizeBytes, content.length);
  assert.equal(
    (await read(files, "/proc/version", { offset: 6, length: 7 })).toString(),
    content.toString("utf8", 6, 13),
  );
});

test("only regular files are read, and nothing waits on a pipe", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  execFileSync("mkfifo", [join(dir, "pipe")]);
  const server = createServer().listen(join(dir, "socket"));
  await once(server, "listening");
  await assert.rejects(files.read(join(dir, "pipe")), refused("EINVAL"));
  await assert.rejects(files.read("/dev/zero"), refused("EINVAL"));
  await assert.rejects(files.read(dir), refused("EISDIR"));
  await assert.rejects(files.read(join(dir, "socket")), refused("ENXIO"));
  await assert.rejects(files.read(join(dir, "none")), missing);
  server.close();
});

test("a file that shrinks while it is read fails the body", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  const path = join(dir, "shrinks");
  fs.writeFileSync(path, Buffer.alloc(32 * 1024 * 1024));
  const { body } = await files.read(path);
  // More is on its way than the socket and the stream hold, so the rest is still in the file.
  await once(body, "readable");
  fs.truncateSync(path, 1_000_000);
  await assert.rejects(buffer(body), { code: "conflict" });
});

test("a reader that goes away lets the worker go", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const path = join(guest.dir, "large");
  fs.writeFileSync(path, "");
  fs.truncateSync(path, 1024 * 1024 * 1024);
  const workers = () => execFileSync("ps", ["--ppid", String(guest.pid), "-o", "pid="], { encoding: "utf8" });
  for (let reader = 0; reader < 120; reader++) {
    const { body } = await connection.files.read(path);
    body.destroy();
  }
  await eventually(() => assert.throws(workers));
});

for (const [kind, bodyOf] of [
  ["a buffer", (content: Buffer) => content],
  ["a stream", (content: Buffer) => Readable.from(cut(content, 70_001), { objectMode: false })],
] as const) {
  test(`${kind} is written whole`, async () => {
    await using session = await startWithFiles();
    const { dir, files } = session;
    for (const length of [0, 1, 127 * 1024, 128 * 1024 + 1, 5_000_000]) {
      const content = Buffer.from(Array.from({ length }, (_, index) => (index * 13) % 253));
      const path = join(dir, `new/${length}/file`);
      const info = await files.write(path, bodyOf(content));
      assert.deepEqual([info.name, info.type, info.sizeBytes, info.mode], ["file", "file", length, 0o644]);
      assert.ok(fs.readFileSync(path).equals(content));
      assert.deepEqual(fs.readdirSync(join(dir, `new/${length}`)), ["file"]);
    }
  });
}

function* cut(content: Buffer, length: number): Generator<Buffer> {
  for (let at = 0; at < content.length; at += length) yield content.subarray(at, at + length);
}

test("a write keeps the mode and owner of the file it replaces, and sets the mode it was given", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  const path = join(dir, "file");
  fs.writeFileSync(path, "old");
  fs.chownSync(path, 12, 34);
  fs.chmodSync(path, 0o640);
  const kept = await files.write(path, Buffer.from("new"));
  assert.deepEqual([kept.uid, kept.gid, kept.mode], [12, 34, 0o640]);
  assert.equal((await files.write(path, Buffer.from("new"), { mode: 0o4755 })).mode, 0o4755);
  assert.equal((await files.write(join(dir, "fresh"), Buffer.from("x"), { mode: 0o777 })).mode, 0o777);
});

test("a write goes through links to the file they name", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  fs.mkdirSync(join(dir, "real"));
  fs.writeFileSync(join(dir, "real/file"), "old");
  fs.symlinkSync("real/file", join(dir, "relative"));
  fs.symlinkSync(join(dir, "relative"), join(dir, "absolute"));
  fs.symlinkSync("new/made", join(dir, "dangling"));
  fs.symlinkSync("loop", join(dir, "loop"));
  await files.write(join(dir, "absolute"), Buffer.from("through two"));
  assert.equal(fs.readFileSync(join(dir, "real/file"), "utf8"), "through two");
  assert.ok(fs.lstatSync(join(dir, "absolute")).isSymbolicLink());
  await files.write(join(dir, "dangling"), Buffer.from("made"));
  assert.equal(fs.readFileSync(join(dir, "new/made"), "utf8"), "made");
  await assert.rejects(files.write(join(dir, "loop"), Buffer.from("x")), refused("ELOOP"));
});

test("a write refuses what is not a file, and leaves nothing behind", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  execFileSync("mkfifo", [join(dir, "pipe")]);
  fs.writeFileSync(join(dir, "file"), "stays");
  const large = Buffer.alloc(4_000_000);
  await assert.rejects(files.write(dir, large), refused("EISDIR"));
  await assert.rejects(files.write(`${dir}/new/`, large), refused("EISDIR"));
  await assert.rejects(files.write(join(dir, "pipe"), large), refused("EINVAL"));
  await assert.rejects(files.write(join(dir, "file/below"), large), refused("ENOTDIR"));
  await assert.rejects(files.write("/proc/none", large), missing);
  assert.deepEqual(fs.readdirSync(dir).sort(), ["file", "pipe"]);
});

test("an upload that is aborted or fails leaves the old file", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  const path = join(dir, "file");
  fs.writeFileSync(path, "old");
  for (const end of ["abort", "destroy", "error"] as const) {
    const body = new PassThrough();
    const abort = new AbortController();
    const written = files.write(path, body, { signal: abort.signal });
    body.write(Buffer.alloc(300_000));
    await eventually(() => assert.equal(temporaries(dir).length, 1));
    if (end === "abort") abort.abort(new Error("the caller went away"));
    else if (end === "destroy") body.destroy();
    else body.destroy(new Error("the caller failed"));
    await assert.rejects(written, end === "destroy" ? { code: "conflict" } : /the caller/);
    await eventually(() => assert.deepEqual(fs.readdirSync(dir), ["file"]));
    assert.equal(fs.readFileSync(path, "utf8"), "old");
  }
});

test("a full disk fails the upload while it is under way", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "guest-test", dir]);
  try {
    fs.writeFileSync(join(dir, "file"), "old");
    let sent = 0;
    const endless = new Readable({
      read() {
        sent += 65_536;
        this.push(Buffer.alloc(65_536));
      },
    });
    await assert.rejects(files.write(join(dir, "file"), endless), refused("ENOSPC"));
    assert.ok(sent < 64 * 1024 * 1024);
    endless.destroy();
    await eventually(() => assert.deepEqual(fs.readdirSync(dir), ["file"]));
    assert.equal(fs.readFileSync(join(dir, "file"), "utf8"), "old");
  } finally {
    execFileSync("umount", [dir]);
  }
});

test("a file that is a mount point of its own is replaced where it is", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  const target = join(dir, "hosts");
  fs.writeFileSync(target, "below");
  fs.writeFileSync(join(dir, "source"), "a longer text that was mounted");
  execFileSync("mount", ["--bind", join(dir, "source"), target]);
  try {
    const info = await files.write(target, Buffer.from("new"));
    assert.equal(info.sizeBytes, 3);
    assert.equal(fs.readFileSync(target, "utf8"), "new");
    assert.equal(fs.readFileSync(join(dir, "source"), "utf8"), "new");
    assert.deepEqual(temporaries(dir), []);
  } finally {
    execFileSync("umount", [target]);
  }
});

test("directories are made with their parents, also when they exist", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  await files.makeDirectory(join(dir, "a/b/c"), 0o700);
  await files.makeDirectory(join(dir, "a/b/c/"), 0o755);
  await files.makeDirectory("/");
  assert.equal(fs.statSync(join(dir, "a/b/c")).mode & 0o7777, 0o700);
  assert.equal(fs.statSync(join(dir, "a/b")).mode & 0o7777, 0o755);
  fs.writeFileSync(join(dir, "file"), "");
  await assert.rejects(files.makeDirectory(join(dir, "file")), { code: "already_exists" });
  await assert.rejects(files.makeDirectory(join(dir, "file/below")), refused("ENOTDIR"));
});

test("removing takes files, links and empty directories, and trees only when asked to", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  fs.mkdirSync(join(dir, "tree/deep/deeper"), { recursive: true });
  fs.writeFileSync(join(dir, "tree/deep/file"), "");
  fs.mkdirSync(join(dir, "kept"));
  fs.writeFileSync(join(dir, "kept/file"), "kept");
  fs.symlinkSync("../kept", join(dir, "tree/link"));
  fs.symlinkSync("kept", join(dir, "link"));
  await assert.rejects(files.remove(join(dir, "tree")), refused("ENOTEMPTY"));
  await files.remove(join(dir, "tree/deep/deeper/"));
  await files.remove(join(dir, "tree"), { recursive: true });
  await files.remove(join(dir, "link"), { recursive: true });
  await assert.rejects(files.remove(join(dir, "tree"), { recursive: true }), missing);
  await assert.rejects(files.remove("/"), refused("EBUSY"));
  assert.deepEqual(fs.readdirSync(dir), ["kept"]);
  assert.equal(fs.readFileSync(join(dir, "kept/file"), "utf8"), "kept");
});

test("a tree that is wide and very deep is removed, and links out of it are not followed", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  fs.mkdirSync(join(dir, "kept"));
  fs.writeFileSync(join(dir, "kept/file"), "kept");
  const script = `import os, sys
os.mkdir("tree"); os.chdir("tree")
for level in range(3000):
    os.symlink(sys.argv[1], "link"); open("file", "w").close(); os.mkdir("d" * 100); os.mkdir("empty"); os.chdir("d" * 100)
for entry in range(3000):
    open("f%d" % entry, "w").close()
    if entry % 10 == 0: os.makedirs("s%d/t" % entry)
`;
  execFileSync("python3", ["-c", script, join(dir, "kept")], { cwd: dir });
  await files.remove(join(dir, "tree"), { recursive: true });
  assert.deepEqual(fs.readdirSync(dir), ["kept"]);
  assert.deepEqual(fs.readdirSync(join(dir, "kept")), ["file"]);
});

test("directories swapped for links during a removal do not lead it out of the tree", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  fs.mkdirSync(join(dir, "kept/inner"), { recursive: true });
  for (let entry = 0; entry < 50; entry++) fs.writeFileSync(join(dir, `kept/inner/${entry}`), "");
  for (let round = 0; round < 20; round++) {
    const tree = join(dir, `tree${round}`);
    fs.mkdirSync(join(tree, "sub/inner"), { recursive: true });
    for (let entry = 0; entry < 200; entry++) fs.writeFileSync(join(tree, `sub/inner/${entry}`), "");
    const removed = files.remove(tree, { recursive: true }).then(
      () => true,
      () => false,
    );
    try {
      fs.renameSync(join(tree, "sub"), join(dir, `moved${round}`));
      fs.symlinkSync(join(dir, "kept"), join(tree, "sub"));
    } catch {
      // The removal was faster.
    }
    await removed;
  }
  assert.equal(fs.readdirSync(join(dir, "kept/inner")).length, 50);
});

test("files are joined in order, published at once, and their parts removed", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  const sources = Array.from({ length: 1_000 }, (_, index) => join(dir, `parts/${index}`));
  fs.mkdirSync(join(dir, "parts"));
  for (const [index, source] of sources.entries()) fs.writeFileSync(source, `${index}\n`);
  fs.writeFileSync(join(dir, "large"), Buffer.alloc(3_000_000, "x"));
  const info = await files.concatenate(join(dir, "new/whole"), [...sources, join(dir, "large")], { mode: 0o600 });
  const expected = sources.map((_, index) => `${index}\n`).join("") + "x".repeat(3_000_000);
  assert.equal(fs.readFileSync(join(dir, "new/whole"), "utf8"), expected);
  assert.deepEqual([info.sizeBytes, info.mode, info.name], [expected.length, 0o600, "whole"]);
  assert.deepEqual(fs.readdirSync(dir).sort(), ["new", "parts"]);
  assert.deepEqual(fs.readdirSync(join(dir, "parts")), []);
});

test("joining that fails changes nothing, and a result among its sources stays", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  fs.writeFileSync(join(dir, "a"), "a");
  fs.writeFileSync(join(dir, "b"), "b");
  await assert.rejects(files.concatenate(join(dir, "a"), [join(dir, "b"), join(dir, "none")]), missing);
  await assert.rejects(files.concatenate(join(dir, "a"), [dir]), refused("EISDIR"));
  assert.deepEqual(fs.readdirSync(dir).sort(), ["a", "b"]);
  await files.concatenate(join(dir, "a"), [join(dir, "a"), join(dir, "b"), join(dir, "a")]);
  assert.equal(fs.readFileSync(join(dir, "a"), "utf8"), "aba");
  assert.deepEqual(fs.readdirSync(dir), ["a"]);
  const many = new Array<string>(10_001).fill(join(dir, "a"));
  await assert.rejects(files.concatenate(join(dir, "whole"), many), { code: "too_large" });
});

test("1,000 operations at once all succeed, and no worker stays", async () => {
  await using guest = await startGuest();
  await using connection = await guest.open();
  const { files } = connection;
  const dir = join(guest.dir, "many");
  await Promise.all(
    Array.from({ length: 500 }, (_, index) => files.write(join(dir, String(index)), Buffer.from(`${index}`))),
  );
  const bodies = await Promise.all(Array.from({ length: 500 }, (_, index) => read(files, join(dir, String(index)))));
  assert.deepEqual(
    bodies.map(String),
    Array.from({ length: 500 }, (_, index) => `${index}`),
  );
  await eventually(() => assert.throws(() => execFileSync("ps", ["--ppid", String(guest.pid)])));
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
