// Walks over trees inside: what they name, where they end, and that they follow no links.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { FoundEntry, Guest, WalkOptions } from "../../src/sandbox-api/machine.ts";
import { startGuest } from "./start-guest.ts";
import { missing, refused, startWithFiles } from "./with-files.ts";

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
  await using session = await startWithFiles();
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
  await using session = await startWithFiles();
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
  await using session = await startWithFiles();
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
  await using session = await startWithFiles();
  const { dir, guest } = session;
  fs.writeFileSync(join(dir, "file"), "");
  await assert.rejects(walk(guest, join(dir, "nothing")), missing);
  await assert.rejects(walk(guest, join(dir, "file")), refused("ENOTDIR"));
  await assert.rejects(walk(guest, dir, { excludeDirs: ["a\0b"] }), refused("EINVAL"));
  await assert.rejects(walk(guest, dir, { excludeDirs: Array(257).fill("a") }), refused("E2BIG"));
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
