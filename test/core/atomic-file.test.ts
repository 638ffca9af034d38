// Files that are replaced whole: the old content or the new, in the right order for a disk that loses power, and nothing beside them.
import assert from "node:assert/strict";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { basename, join } from "node:path";
import { after, test } from "node:test";
import { mountSmallDisk } from "../small-disk.ts";

/** What was done to make a file lasting, in order. */
const done: string[] = [];
const { fsyncSync, renameSync } = fs;
fs.fsyncSync = (file) => {
  done.push(`sync ${basename(fs.readlinkSync(`/proc/self/fd/${file}`))}`);
  fsyncSync(file);
};
fs.renameSync = (from, to) => {
  done.push(`rename ${basename(String(from))}`);
  renameSync(from, to);
};
syncBuiltinESMExports();
after(() => {
  Object.assign(fs, { fsyncSync, renameSync });
  syncBuiltinESMExports();
});
const { writeFileAtomic } = await import("../../src/core/atomic-file.ts");

test("a durable file is synced, then takes its name, then its directory is synced", () => {
  using disk = mountSmallDisk(1);
  const path = join(disk.path, "record");
  for (const [durable, expected] of [
    [false, ["rename record.new"]],
    [true, ["sync record.new", "rename record.new", `sync ${basename(disk.path)}`]],
  ] as const) {
    done.length = 0;
    writeFileAtomic(path, "content", { durable });
    assert.deepEqual(done, expected);
    assert.equal(fs.readFileSync(path, "utf8"), "content");
    assert.equal(fs.statSync(path).mode & 0o777, 0o600);
  }
});

test("on a full disk the old content stays, whole, and nothing beside it", () => {
  using disk = mountSmallDisk(1);
  const path = join(disk.path, "record");
  writeFileAtomic(path, "old");
  disk.fill();
  // Room for a part of it: a write that ends early must not pass for one that has ended.
  fs.truncateSync(join(disk.path, "filler"), fs.statSync(join(disk.path, "filler")).size - 8_192);
  assert.throws(() => writeFileAtomic(path, "n".repeat(20_000)), { code: "ENOSPC" });
  assert.equal(fs.readFileSync(path, "utf8"), "old");
  assert.deepEqual(fs.readdirSync(disk.path).sort(), ["filler", "record"]);
});
