// The `features` commands, against a platform's operator socket.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { openOperatorSocket } from "../../src/dev/operator-socket.ts";
import { startServer } from "../control-plane/harness.ts";
import { cli } from "./run-cli.ts";

test("features are turned on, listed, turned off and reset", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "catnap-cli-features-"));
  try {
    await using server = await startServer();
    await using _socket = await openOperatorSocket(dataDir, (request, response) =>
      server.controlPlane.operatorApp.routing(request, response),
    );
    const features = (...args: string[]) => cli(["features", ...args], { env: { CATNAP_DATA_DIR: dataDir } });
    const inMain = ["--workspace", "main"];
    assert.match((await features("list", ...inMain)).stderr, /No feature is known/);
    const enabled = await features("enable", "a.b", ...inMain, "--variant", "v1", "--payload", '{"x":1}');
    assert.deepEqual([enabled.exitCode, enabled.stdout, enabled.stderr], [0, "a.b is on (operator)\n", ""]);
    assert.deepEqual((await server.call("GET", "/v0/features/a.b")).body.payload, { x: 1 });
    assert.match(
      (await features("list", ...inMain)).stdout,
      /^NAME +STATE +VARIANT +SET BY\na\.b +on +v1 +operator\n$/,
    );
    assert.equal((await features("disable", "a.b", ...inMain)).stdout, "a.b is off (operator)\n");
    assert.equal((await features("reset", "a.b", ...inMain)).exitCode, 0);
    assert.equal((await features("reset", "a.b", ...inMain)).exitCode, 3);
    assert.equal((await features("list", "--workspace", "nowhere")).exitCode, 3);
    assert.equal((await features("enable", "a", ...inMain, "--payload", "[1]")).exitCode, 2);
    const misnamed = await features("enable", "two words", ...inMain);
    assert.equal(misnamed.exitCode, 2);
    assert.match(misnamed.stderr, /A feature's name is a letter followed by/);
    assert.equal((await features("list")).exitCode, 2);
    assert.equal((await features("list", "--workspace", "../x")).exitCode, 2);
    const json = await features("list", ...inMain, "--json");
    assert.deepEqual(JSON.parse(json.stdout), { features: [] });
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
});
