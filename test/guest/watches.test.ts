// Watches inside: changes are told in order, or that some are missing, and places are given back.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Change, Guest } from "../../src/sandbox-api/machine.ts";
import { eventually } from "../eventually.ts";
import { missing, startWithFiles } from "./with-files.ts";

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
  await using session = await startWithFiles();
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
  await using session = await startWithFiles();
  const { dir, guest } = session;
  fs.writeFileSync(join(dir, "file"), "");
  await using watching = await watch(guest, join(dir, "file"), { recursive: true });
  fs.appendFileSync(join(dir, "file"), "more");
  await watching.untilTold("write ");
});

test("a tree is watched with what is made, moved in and moved away meanwhile", async () => {
  await using session = await startWithFiles();
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
  await using session = await startWithFiles();
  const { dir, guest } = session;
  fs.mkdirSync(join(dir, "real/below"), { recursive: true });
  fs.symlinkSync("real", join(dir, "link"));
  await using watching = await watch(guest, join(dir, "link"), { recursive: true });
  fs.writeFileSync(join(dir, "real/below/file"), "1");
  await watching.untilTold("write below/file");
});

test("ten thousand files made at once are all told, or that changes are missing", async () => {
  await using session = await startWithFiles();
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
  await using session = await startWithFiles();
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
  await using session = await startWithFiles();
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
