// The listener sends the OAuth metadata at the origin's root to the control plane, and nothing else below /.well-known.
import assert from "node:assert/strict";
import { test } from "node:test";
import { openListener } from "../../../src/dev/listener.ts";

test("the metadata of an issuer with a path is found at the root", async () => {
  await using listener = await openListener("127.0.0.1:0");
  listener.serve({
    controlPlane: (_request, response) => void response.end("control plane"),
    edge: {
      owns: ({ headers }) => headers["x-sandbox"] !== undefined,
      handle: (_request, response) => void response.end("edge"),
      upgrade: (_request, socket) => void socket.destroy(),
    },
  });
  const ask = async (path: string, headers = {}) => (await fetch(`${listener.origin}${path}`, { headers })).text();
  const metadata = "/.well-known/oauth-authorization-server/v0";
  assert.equal(await ask(metadata), "control plane");
  assert.equal(await ask(`${metadata}?x`), "control plane");
  assert.equal(await ask(`${metadata}x`), "edge");
  assert.equal(await ask("/.well-known/oauth-authorization-server"), "edge");
  assert.equal(await ask("/.well-known/other"), "edge");
  assert.equal(await ask(metadata, { "x-sandbox": "1" }), "edge");
});
