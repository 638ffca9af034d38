// The `keys` commands, against a platform's operator socket.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { openOperatorSocket } from "../../src/dev/operator-socket.ts";
import { startServer } from "../control-plane/harness.ts";
import { cli } from "./run-cli.ts";

test("the key is changed, with progress, and the reason is told when it cannot be", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "catnap-cli-keys-"));
  try {
    await using server = await startServer({ config: { sealKeySettleMs: 50 } });
    await using _socket = await openOperatorSocket(dataDir, (request, response) =>
      server.controlPlane.operatorApp.routing(request, response),
    );
    const keys = (...args: string[]) => cli(["keys", ...args], { env: { CATNAP_DATA_DIR: dataDir } });
    await server.create({ name: "a", spec: { runtime: { envs: [{ name: "A", value: "b" }] } } });
    const before = await keys("show");
    const rotated = await keys("rotate");
    assert.equal(rotated.exitCode, 0, rotated.stderr);
    assert.match(rotated.stdout, /^sealing key [\w-]{16}; \d+ texts sealed anew\n$/);
    assert.match(rotated.stderr, /texts sealed anew/);
    const after = await keys("show");
    assert.notEqual(after.stdout, before.stdout);
    assert.match(after.stdout, /^sealing key [\w-]{16} \(from the key file\)\n$/);

    server.host.resealInstances = () => Promise.resolve({ resealed: 0, unreadable: 2 });
    const failed = await keys("rotate");
    assert.equal(failed.exitCode, 1);
    assert.match(failed.stderr, /2 sealed texts could not be opened[\s\S]*Nothing is lost/);
    assert.match((await keys("show")).stdout, /still needed: [\w-]{16}/);
    assert.equal(JSON.parse((await keys("show", "--json")).stdout).rotation.phase, "failed");
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
});
