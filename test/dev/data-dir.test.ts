// A data directory is made where it can be, and refused with the reason and the way out where it cannot.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { makeDataDir } from "../../src/dev/data-dir.ts";

const root = mkdtempSync(join(tmpdir(), "catnap-data-"));
after(() => rmSync(root, { recursive: true }));

test("it is made with all that is above it, and found again", () => {
  const dir = join(root, "a/b");
  makeDataDir(dir);
  makeDataDir(dir);
  assert.equal(statSync(dir).mode & 0o777, 0o711);
});

test("a file, or a place below one, is refused", () => {
  writeFileSync(join(root, "file"), "");
  const refused = (path: string, message: RegExp): void =>
    assert.throws(() => makeDataDir(join(root, path)), { code: "invalid_request", message });
  refused("file", /file cannot be used: it is not a directory\. Choose another with --data-dir or CATNAP_DATA_DIR/);
  refused("file/below", /something above it is not a directory/);
  assert.throws(() => makeDataDir("/proc/nowhere/below"), /no directory can be made there/);
});
