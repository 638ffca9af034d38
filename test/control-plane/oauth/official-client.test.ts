// The official client, unchanged, logs in with client credentials and renews its token by itself.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Server, startServer, until } from "../harness.ts";
import { addServiceAccount, decodeJwt } from "./browser.ts";

type Client = typeof import("@blaxel/core");

let server: Server;
let client: Client;

before(async () => {
  // The client renews its token when half of its life is over.
  server = await startServer({ settings: { CATNAP_ACCESS_TOKEN_TTL: "3s" } });
  const account = await addServiceAccount(server);
  // The client reads its settings when it is loaded.
  Object.assign(process.env, {
    BL_API_URL: `${server.url}/v0`,
    BL_RUN_URL: `${server.url}/run`,
    BL_CLIENT_CREDENTIALS: Buffer.from(account.basic).toString("base64"),
    BL_WORKSPACE: "main",
    BL_REGION: "local",
    BL_DISABLE_H2: "1",
    DO_NOT_TRACK: "1",
  });
  delete process.env.BL_API_KEY;
  client = await import("@blaxel/core");
});

after(async () => {
  await server[Symbol.asyncDispose]();
});

test("it logs in, works, and works on when its tokens have expired", async () => {
  const tokens = new Set<string>();
  await until("three tokens have been used", async () => {
    const { data } = await client.listSandboxes({ throwOnError: true });
    assert.ok(data !== undefined);
    tokens.add(client.settings.token);
    return tokens.size >= 3 ? true : undefined;
  });
  for (const token of tokens) {
    const { iat, exp, client_id } = decodeJwt(token).payload;
    assert.equal(Number(exp) - Number(iat), 3);
    assert.ok(client_id);
  }
});

test("it says what went wrong when its secret is not accepted", async () => {
  const { ClientCredentials } = await import("@blaxel/core").then(async () => {
    const module = new URL("authentication/clientcredentials.js", import.meta.resolve("@blaxel/core"));
    return (await import(module.href)) as {
      ClientCredentials: new (given: object) => { process(): Promise<void> };
    };
  });
  const wrong = new ClientCredentials({ clientCredentials: Buffer.from("nobody:nothing").toString("base64") });
  await assert.rejects(wrong.process(), /invalid_client/);
});
