// The `quotas` commands, against a platform's operator socket.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { openOperatorSocket } from "../../src/dev/operator-socket.ts";
import { startServer } from "../control-plane/harness.ts";
import { cli } from "./run-cli.ts";

test("quotas are listed, set and reset", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "catnap-cli-quotas-"));
  try {
    await using server = await startServer();
    await using _socket = await openOperatorSocket(dataDir, (request, response) =>
      server.controlPlane.operatorApp.routing(request, response),
    );
    const quotas = (...args: string[]) => cli(["quotas", ...args], { env: { CATNAP_DATA_DIR: dataDir } });
    const inMain = ["--workspace", "main"];
    assert.match((await quotas("list", ...inMain)).stdout, /sandboxes +10000 +installation\nmemory +40960000 MB +/);
    const set = await quotas("set", "sandboxes", "1", ...inMain);
    assert.deepEqual([set.exitCode, set.stdout, set.stderr], [0, "sandboxes is 1 (operator)\n", ""]);
    assert.equal((await server.create({ name: "one" })).status, 200);
    assert.equal((await server.create({ name: "two" })).body.code, "QUOTA_EXCEEDED");
    assert.match((await quotas("list", ...inMain)).stdout, /sandboxes +1 +operator\n/);
    assert.equal((await quotas("reset", "sandboxes", ...inMain)).stdout, "sandboxes is 10000 (installation)\n");
    assert.equal((await server.create({ name: "two" })).status, 200);
    const json = await quotas("list", ...inMain, "--json");
    assert.deepEqual(JSON.parse(json.stdout)[2], {
      resourceType: "terminatedRetention",
      value: 604_800,
      source: "installation",
    });
    for (const wrong of [
      ["set", "cpu", "1"],
      ["set", "memory", "lots"],
      ["set", "memory", "-1"],
      ["reset", "x"],
    ]) {
      assert.equal((await quotas(...wrong, ...inMain)).exitCode, 2, wrong.join(" "));
    }
    assert.equal((await quotas("list", "--workspace", "nowhere")).exitCode, 3);
    assert.equal((await quotas("list")).exitCode, 2);
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
});
