// The features file: per workspace before default, the operator before both, read again when it changes, a broken one without effect.
import assert from "node:assert/strict";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type Server, startServer, until } from "../control-plane/harness.ts";

function makeFile(content: unknown) {
  const dir = mkdtempSync(join(tmpdir(), "catnap-features-"));
  const path = join(dir, "features.json");
  const write = (value: unknown): void => {
    writeFileSync(`${path}.new`, typeof value === "string" ? value : JSON.stringify(value));
    renameSync(`${path}.new`, path);
  };
  write(content);
  return { path, write, [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }) };
}

const start = (path: string) => startServer({ settings: { CATNAP_FEATURES_FILE: path } });

const namesOn = async (server: Server) => Object.keys((await server.call("GET", "/v0/features")).body.features);

test("a workspace's own settings replace the default, the operator's replace both", async () => {
  using file = makeFile({
    default: { a: true, b: true, c: false, d: { enabled: true, variant: "v" } },
    workspaces: { main: { b: false, c: true }, other: { z: true } },
  });
  await using server = await start(file.path);
  assert.deepEqual(await namesOn(server), ["a", "c", "d"]);
  assert.equal((await server.call("GET", "/v0/features/d")).body.variant, "v");
  await server.operate("PUT", "/v0/workspaces/main/features/a", { body: { enabled: false } });
  await server.operate("PUT", "/v0/workspaces/main/features/b", { body: { enabled: true } });
  assert.deepEqual(await namesOn(server), ["b", "c", "d"]);
  const { body } = await server.operate("GET", "/v0/workspaces/main/features");
  assert.deepEqual(body.file, { path: file.path });
  assert.deepEqual(
    body.features.map(({ name, enabled, source }: Record<string, unknown>) => [name, enabled, source]),
    [
      ["a", false, "operator"],
      ["b", true, "operator"],
      ["c", true, "file"],
      ["d", true, "file default"],
    ],
  );
  const reset = await server.operate("DELETE", "/v0/workspaces/main/features/a");
  assert.deepEqual(reset.body, { name: "a", enabled: true, source: "file default" });
});

test("a change takes effect; a broken file is reported and the last good one stays", async () => {
  using file = makeFile({ default: { a: true } });
  await using server = await start(file.path);
  const has = (names: string[]) => async () => (String(await namesOn(server)) === String(names) ? true : undefined);
  file.write({ default: { b: true } });
  await until("the new file is in effect", has(["b"]));
  const problem = async () => (await server.operate("GET", "/v0/workspaces/main/features")).body.file.problem;
  for (const [broken, said] of [
    ["{", /not JSON/],
    [{ default: { b: "yes" } }, /wrong at \/default\/b/],
    [{ defaults: {} }, /wrong/],
    [{ default: { "9": true } }, /wrong/],
    [{ default: { b: { enabled: true, payload: { x: "y".repeat(20_000) } } } }, /16384/],
  ] as const) {
    file.write(broken);
    await until(`the problem is ${said}`, async () => (said.test((await problem()) ?? "") ? true : undefined));
    assert.deepEqual(await namesOn(server), ["b"]);
  }
  rmSync(file.path);
  await until("the loss is reported", async () => (/cannot be read/.test((await problem()) ?? "") ? true : undefined));
  assert.deepEqual(await namesOn(server), ["b"]);
  file.write({ default: { c: true } });
  await until("a good file is in effect again", has(["c"]));
  assert.equal(await problem(), undefined);
  assert.match(server.logged(), /the last good one stays in effect/);
});

test("a platform does not start on a file that is missing, wrong or none", async () => {
  using file = makeFile("[]");
  await assert.rejects(start(file.path), /CATNAP_FEATURES_FILE/);
  await assert.rejects(start(`${file.path}.missing`), /cannot be read \(ENOENT\)/);
  await assert.rejects(start(tmpdir()), /is not a file/);
  await assert.rejects(start("/dev/zero"), /is not a file/);
  file.write(`{"default":{}}${" ".repeat(1024 * 1024)}`);
  await assert.rejects(start(file.path), /more than 1048576 bytes/);
});
