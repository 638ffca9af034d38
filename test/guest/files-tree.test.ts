// Directories inside are made and removed, and links lead nobody out of the tree.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { missing, refused, startWithFiles } from "./with-files.ts";

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
