// Each kind of service, imitated as it speaks: how it is asked, paged through, and how it refuses a key.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { startServer } from "../harness.ts";
import { json, type Respond, startService } from "../outgoing/fake-service.ts";
import { cases, credential } from "./imitations.ts";

for (const {
  kind,
  address = "",
  addressKey = "baseUrl",
  config,
  secretKey,
  respond,
  expected,
  checkAsked,
  refusal,
} of cases) {
  describe(kind, () => {
    const connect = async (answer: Respond) => {
      const service = await startService(answer);
      const server = await startServer({ settings: { CATNAP_OUTGOING_ALLOWED_HOSTS: service.host } });
      const spec = {
        integration: kind,
        config: { ...config, [addressKey]: `${service.origin}${address}` },
        secret: { [secretKey ?? "apiKey"]: credential },
      };
      const created = await server.call("POST", "/v0/integrations/connections", {
        body: { metadata: { name: "c" }, spec },
      });
      assert.equal(created.status, 200, created.text);
      return { service, server };
    };

    test("lists its models, in the form every kind has", async () => {
      const { service, server } = await connect(respond);
      await using _service = service;
      await using _server = server;
      const answer = await server.call("GET", "/v0/integrations/connections/c/models");
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(answer.body, expected);
      checkAsked(service.asked);
      const { id } = expected[0] as { id: string };
      const one = await server.call("GET", `/v0/integrations/connections/c/models/${encodeURIComponent(id)}`);
      assert.deepEqual(one.body, expected[0]);
      assert.equal((await server.call("GET", "/v0/integrations/connections/c/models/none%2Fsuch")).status, 404);
      const endpoints = await server.call("GET", "/v0/integrations/connections/c/endpointConfigurations");
      assert.equal(endpoints.status, 200);
      for (const { url } of endpoints.body) assert.ok(url.startsWith(service.origin), url);
    });

    test("a refused key is 502 with the service's reason, and no part of the key", async () => {
      const { service, server } = await connect((response) => json(response, refusal.status, refusal.body));
      await using _service = service;
      await using _server = server;
      const answer = await server.call("GET", "/v0/integrations/connections/c/models");
      assert.equal(answer.status, 502, answer.text);
      assert.deepEqual([answer.body.error, answer.body.code], ["upstream_failed", 502]);
      assert.match(answer.body.message, refusal.said);
      for (let index = 0; index + 6 <= credential.length; index++) {
        const part = credential.slice(index, index + 6);
        assert.ok(!answer.text.includes(part), `${part} in ${answer.text}`);
        assert.ok(!server.logged().includes(part), `${part} in the log`);
      }
    });
  });
}
