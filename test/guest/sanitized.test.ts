// The guest's other tests once more, with an init that stops at the first access outside its memory or undefined operation.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { buildGuest } from "./start-guest.ts";

/** These run no init. */
const others = [
  "sanitized",
  "fuzz",
  "vectors",
  "frame-writer",
  "guest-limits",
  "hostile-frames",
  "hostile-guest",
  "slots",
  "upgrade-state",
].map((suite) => `${suite}.test.ts`);

test("every suite passes under the sanitizers, and they report nothing", () => {
  const env: NodeJS.ProcessEnv = { ...process.env, CATNAP_GUEST_BINARY: buildGuest("sanitize") };
  // Set by the runner this test is itself run by.
  delete env.NODE_TEST_CONTEXT;
  const files = readdirSync(import.meta.dirname)
    .filter((name) => name.endsWith(".test.ts") && !others.includes(name))
    .map((name) => join(import.meta.dirname, name));
  assert.ok(files.length > 0);
  const args = ["--test", "--test-concurrency=1", "--test-timeout=300000", "--test-reporter=tap", ...files];
  const result = spawnSync(process.execPath, args, { env, encoding: "utf8", timeout: 1_100_000, maxBuffer: 1 << 26 });
  const output = `${result.stdout}${result.stderr}`.split("\n");
  assert.deepEqual(
    output.filter((line) => /runtime error:|Sanitizer|^\s*not ok/.test(line)),
    [],
  );
  assert.equal(result.status, 0);
});
