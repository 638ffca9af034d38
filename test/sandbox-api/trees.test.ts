// Trees are written in one request and removed, and no path leads out of them.
import assert from "node:assert/strict";
import * as fs from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { TestSandbox } from "./harness.ts";

test("a tree is written with its directories, answered and removed", async () => {
  await using sandbox = await TestSandbox.start();
  const root = join(sandbox.directory, "tree");
  const files = { "a.txt": "a", "deep/er/b.txt": "b", "/leading.txt": "c", "./dot/d.txt": "d", "empty.txt": "" };
  const answer = await sandbox.ask("PUT", `/filesystem/tree/${root}`, { json: { files } });
  assert.equal(answer.status, 200, answer.text);
  const { path, files: listed, subdirectories } = answer.json as Record<string, { name: string }[]> & { path: string };
  assert.equal(path, root);
  assert.deepEqual(
    listed!.map(({ name }) => name),
    ["a.txt", "empty.txt", "leading.txt"],
  );
  assert.deepEqual(
    subdirectories!.map(({ name }) => name),
    ["deep", "dot"],
  );
  assert.equal(fs.readFileSync(join(root, "deep/er/b.txt"), "utf8"), "b");
  const again = await sandbox.ask("PUT", `/filesystem/tree/${encodeURIComponent(root)}`, {
    json: { files: { "a.txt": "new" } },
  });
  assert.equal(again.status, 200);
  assert.equal(fs.readFileSync(join(root, "a.txt"), "utf8"), "new");
  assert.equal((await sandbox.ask("DELETE", `/filesystem/tree/${root}`)).status, 422);
  assert.equal((await sandbox.ask("DELETE", `/filesystem/tree/${root}?recursive=true`)).status, 200);
  assert.equal(fs.existsSync(root), false);
  assert.equal((await sandbox.ask("DELETE", `/filesystem/tree/${root}?recursive=true`)).status, 404);
});

test("a tree without files is a directory", async () => {
  await using sandbox = await TestSandbox.start();
  const answer = await sandbox.ask("PUT", `/filesystem/tree/${sandbox.directory}/new`, { json: {} });
  assert.equal(answer.status, 200, answer.text);
  assert.ok(fs.statSync(join(sandbox.directory, "new")).isDirectory());
});

test("paths that lead elsewhere are refused before anything is written", async () => {
  await using sandbox = await TestSandbox.start();
  const root = join(sandbox.directory, "tree");
  for (const path of ["../out", "a/../../out", "..", "", "/", "a/", "a\0b"]) {
    const answer = await sandbox.ask("PUT", `/filesystem/tree/${root}`, {
      json: { files: { fine: "1", [path]: "2" } },
    });
    assert.equal(answer.status, 400, path);
  }
  assert.equal(fs.existsSync(root), false);
  assert.equal((await sandbox.ask("PUT", `/filesystem/tree/${root}`, { json: { files: { a: 1 } } })).status, 400);
});

test("a file in the way of a directory is told", async () => {
  await using sandbox = await TestSandbox.start();
  const root = join(sandbox.directory, "tree");
  fs.mkdirSync(root);
  fs.writeFileSync(join(root, "file"), "");
  const answer = await sandbox.ask("PUT", `/filesystem/tree/${root}`, { json: { files: { "file/below": "1" } } });
  assert.equal(answer.status, 422, answer.text);
  assert.equal((await sandbox.ask("DELETE", `/filesystem/tree/${root}/file`)).status, 400);
});
