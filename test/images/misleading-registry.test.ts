// A registry that is allowed cannot use a pull to reach what the platform's machine can reach and it cannot.
import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, type TestContext, test } from "node:test";
import { assertInvalid, assertNoWork, makeImageStore } from "./support.ts";

describe("a registry cannot send a pull elsewhere", () => {
  for (const target of [
    "http://127.0.0.1:PORT/",
    "http://localhost:PORT/",
    "http://[::1]:PORT/",
    "http://169.254.169.254/latest/meta-data/",
  ]) {
    test(`to ${target}`, async (t) => {
      let asked = 0;
      const inner = createServer((_, response) => {
        asked += 1;
        response.end("secret");
      });
      const innerPort = await listen(t, inner);
      const evil = createServer((request, response) => {
        if (request.url === "/v2/") return response.end("{}");
        response.writeHead(307, { location: target.replace("PORT", String(innerPort)) }).end();
      });
      const address = `127.0.0.1:${await listen(t, evil)}`;
      await using store = await makeImageStore();
      await using misled = await store.open({ insecureRegistries: [address] });
      const message = await assertInvalid(misled, `${address}/a/b:1`);
      assert.equal(message.includes("secret"), false);
      assert.equal(asked, 0);
      await assertNoWork(store.imageDir);
    });

    test(`to ${target} for a token`, async (t) => {
      let asked = 0;
      const inner = createServer((_, response) => {
        asked += 1;
        response.end(JSON.stringify({ token: "x" }));
      });
      const innerPort = await listen(t, inner);
      const realm = target.replace("PORT", String(innerPort));
      const evil = createServer((_, response) => {
        response.writeHead(401, { "www-authenticate": `Bearer realm="${realm}",service="x"` }).end();
      });
      const address = `127.0.0.1:${await listen(t, evil)}`;
      await using store = await makeImageStore();
      await using misled = await store.open({ insecureRegistries: [address] });
      await assertInvalid(misled, `${address}/a/b:1`);
      assert.equal(asked, 0);
      await assertNoWork(store.imageDir);
    });
  }
});

/** Listens until the test that asked for it has ended. */
function listen(t: TestContext, server: Server): Promise<number> {
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return new Promise((resolvePort) => {
    server.listen(0, "127.0.0.1", () => resolvePort((server.address() as AddressInfo).port));
  });
}
