// The `oauth` commands, against a platform's operator socket.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { openOperatorSocket } from "../../src/dev/operator-socket.ts";
import { startServer } from "../control-plane/harness.ts";
import { cli } from "./run-cli.ts";

test("clients are added, listed and removed, and signing keys replaced", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "catnap-cli-oauth-"));
  try {
    await using server = await startServer();
    await using _socket = await openOperatorSocket(dataDir, (request, response) =>
      server.controlPlane.operatorApp.routing(request, response),
    );
    const oauth = (...args: string[]) => cli(["oauth", ...args], { env: { CATNAP_DATA_DIR: dataDir } });
    const uri = ["--redirect-uri", "https://app.example/callback"];
    const added = await oauth("add-client", "App", ...uri, "--confidential");
    assert.equal(added.exitCode, 0, added.stderr);
    const [, clientId, secret] = /^client id +([a-z0-9]{20})\nclient secret +(cs_\w+)\n$/.exec(added.stdout) ?? [];
    assert.ok(clientId && secret, added.stdout);
    const listed = await oauth("clients");
    assert.match(listed.stdout, new RegExp(`${clientId} +App +confidential +https://app\\.example/callback\n`));
    assert.ok(!listed.stdout.includes(secret));
    assert.equal((await oauth("add-client", "App")).exitCode, 2);
    const unsafe = await oauth("add-client", "App", "--redirect-uri", "http://app.example/");
    assert.equal(unsafe.exitCode, 1);
    assert.match(unsafe.stderr, /use https/);
    assert.equal((await oauth("remove-client", clientId)).stdout, `removed ${clientId}\n`);
    assert.equal((await oauth("remove-client", clientId)).exitCode, 3);
    const before = JSON.parse((await oauth("keys", "--json")).stdout);
    const rotated = await oauth("rotate-keys");
    assert.match(rotated.stdout, /^KEY ID +ACTIVE FROM +USE\n\w+ +\S+ +signs\n\w+ +\S+ +verifies\n$/);
    const after = JSON.parse((await oauth("rotate-keys", "--revoke", "--json")).stdout);
    assert.equal(after.length, 1);
    assert.notEqual(after[0].keyId, before[0].keyId);
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
});
