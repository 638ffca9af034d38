// Writing files inside: the old file or the new one, never a part, whatever becomes of the upload.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { eventually } from "../eventually.ts";
import { missing, refused, startWithFiles } from "./with-files.ts";

/** Names in a directory that uploads leave while they are under way. */
function temporaries(dir: string): string[] {
  return fs.readdirSync(dir).filter((name) => name.startsWith(".catnap-"));
}

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

test("permission bits change alone, through links and of directories", async () => {
  await using session = await startWithFiles();
  const { dir, files } = session;
  const path = join(dir, "file");
  await files.write(path, Buffer.from("content"), { mode: 0o600 });
  fs.symlinkSync("file", join(dir, "link"));
  const before = fs.statSync(path);
  assert.deepEqual(await files.setMode(path, 0o4755), { ...(await files.stat(path)), mode: 0o4755 });
  assert.equal((await files.setMode(join(dir, "link"), 0o640)).mode, 0o640);
  assert.equal((await files.setMode(dir, 0o711)).type, "directory");
  const after = fs.statSync(path);
  assert.deepEqual([after.mode & 0o7777, after.ino, after.mtimeMs], [0o640, before.ino, before.mtimeMs]);
  await assert.rejects(files.setMode(join(dir, "none"), 0o640), missing);
});

test("a part of the path that is swapped while a file is written leaves no temporary file", async () => {
  await using guest = await startWithFiles();
  const { dir, files } = guest;
  for (const name of ["one", "other"]) fs.mkdirSync(join(dir, name));
  fs.symlinkSync("one", join(dir, "current"));
  let isOver = false;
  const swapping = (async () => {
    for (let round = 0; !isOver; round++) {
      fs.symlinkSync(round % 2 === 0 ? "other" : "one", join(dir, "next"));
      fs.renameSync(join(dir, "next"), join(dir, "current"));
      await setImmediate();
    }
  })();
  for (let index = 0; index < 300; index++) await files.write(join(dir, "current", "file"), Buffer.from("content"));
  isOver = true;
  await swapping;
  for (const name of ["one", "other"]) {
    assert.deepEqual(fs.readdirSync(join(dir, name)), ["file"]);
    assert.equal(fs.readFileSync(join(dir, name, "file"), "utf8"), "content");
  }
});
