// Looking at files inside: attributes, lists and content, whatever lies at the paths.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { startGuest } from "./start-guest.ts";
import { missing, readAll, refused, startWithFiles } from "./with-files.ts";

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
    const part = await readAll(files, path, { offset, length });
    assert.ok(part.equals(content.subarray(offset, offset + length)), `${offset} ${length}`);
  }
  assert.ok((await readAll(files, path, { offset: 999_000 })).equals(content.subarray(999_000)));
  fs.writeFileSync(path, "");
  assert.equal((await readAll(files, path)).length, 0);
});

test("files that do not know their size are read whole", async () => {
  await using session = await startWithFiles();
  const { files } = session;
  const { info, body } = await files.read("/proc/version");
  const content = await buffer(body);
  assert.equal(content.toString(), fs.readFileSync("/proc/version", "utf8"));
  assert.equal(info.sizeBytes, content.length);
  assert.equal(
    (await readAll(files, "/proc/version", { offset: 6, length: 7 })).toString(),
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
