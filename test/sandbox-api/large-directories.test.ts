// Directories with very many entries are listed, searched and removed whole, and beyond the limit refused with a reason.
import assert from "node:assert/strict";
import * as fs from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { directoryEntriesMax } from "../../src/contract/sandbox-api/filesystem.ts";
import { TestSandbox } from "./harness.ts";

type Listing = { files: { name: string; path: string }[]; subdirectories: { name: string }[] };

test("a hundred thousand entries are listed, one more is refused, and names among them are found", async () => {
  await using sandbox = await TestSandbox.start();
  const dir = join(sandbox.workingDir, "many");
  fs.mkdirSync(join(dir, "sub"), { recursive: true });
  for (let index = 1; index < directoryEntriesMax; index++) fs.writeFileSync(join(dir, `f${index}`), "");
  for (const path of ["/filesystem/many", `/filesystem/tree${dir}`]) {
    const { status, json } = await sandbox.ask("GET", path);
    assert.equal(status, 200);
    const { files, subdirectories } = json as Listing;
    assert.equal(new Set(files.map(({ name }) => name)).size, directoryEntriesMax - 1);
    assert.equal(files[0]!.path, join(dir, files[0]!.name));
    assert.deepEqual(subdirectories, [{ path: join(dir, "sub"), name: "sub" }]);
  }
  const head = await sandbox.ask("HEAD", "/filesystem/many");
  assert.deepEqual([head.status, head.body.length], [200, 0]);
  const last = `f${directoryEntriesMax - 1}`;
  const found = await sandbox.ask("GET", `/filesystem-find/many?patterns=${last}`);
  assert.deepEqual(found.json, { matches: [{ path: last, type: "file" }], total: 1 });
  const ranked = await sandbox.ask("GET", `/filesystem-search/many?query=${last}&maxResults=1`);
  assert.equal((ranked.json as { matches: { path: string }[] }).matches[0]!.path, last);
  fs.writeFileSync(join(dir, "one-more"), "");
  const refused = await sandbox.ask("GET", "/filesystem/many");
  assert.equal(refused.status, 422);
  assert.match(refused.text, /more than 100000 entries/);
  assert.equal((await sandbox.ask("DELETE", "/filesystem/many?recursive=true")).status, 200);
  assert.ok(!fs.existsSync(dir));
});
