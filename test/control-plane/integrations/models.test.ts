// Asking a connection's service for its models when things are not as they should be: on the connection, on the way, or at the service.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type Answer, type Server, startServer, until } from "../harness.ts";
import { type FakeService, json, type Respond, startService } from "../outgoing/fake-service.ts";

const path = "/v0/integrations/connections";
const credential = "sk-live-0a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d";
const one = { data: [{ id: "m1", created: 1_700_000_000 }] };
const limits = { idleTimeoutMs: 300, totalTimeoutMs: 1_000 };

type Connected = AsyncDisposable & { service: FakeService; server: Server; list: () => Promise<Answer> };

/** A connection `c` to a service that answers so. */
async function connect(respond: Respond, spec: { integration?: string; secret?: object } = {}): Promise<Connected> {
  const service = await startService(respond);
  const server = await startServer({ config: { outgoing: { allowedHosts: [service.host], limits } } });
  const { integration = "openai", secret = { apiKey: credential } } = spec;
  const body = { metadata: { name: "c" }, spec: { integration, config: { baseUrl: service.origin }, secret } };
  const created = await server.call("POST", path, { body });
  assert.equal(created.status, 200, created.text);
  return {
    service,
    server,
    list: () => server.call("GET", `${path}/c/models`),
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await service[Symbol.asyncDispose]();
    },
  };
}

function assertUpstreamFailed({ status, body, text }: Answer, reason: RegExp): void {
  assert.equal(status, 502, text.slice(0, 500));
  assert.equal(body.error, "upstream_failed");
  assert.match(body.message, reason);
}

describe("a connection that cannot be asked", () => {
  test("is unknown, of no kind, or of a kind without models", async () => {
    await using server = await startServer();
    const create = (name: string, spec: object) => server.call("POST", path, { body: { metadata: { name }, spec } });
    const models = (name: string) => server.call("GET", `${path}/${name}/models`);
    assert.equal((await models("none")).status, 404);
    assert.equal((await models("Not%20A%20Name")).status, 404);
    await create("mail", { integration: "gmail", secret: { CLIENT_ID: "x" } });
    await create("plain", { secret: { apiKey: "x" } });
    for (const [name, what] of [
      ["mail", /^Gmail has no models; those that have are anthropic, azure/],
      ["plain", /^A connection without spec\.integration has no models/],
    ] as const) {
      const answer = await models(name);
      assert.equal(answer.status, 400);
      assert.match(answer.body.message, what);
      assert.equal((await server.call("GET", `${path}/${name}/models/m`)).status, 400);
      assert.deepEqual((await server.call("GET", `${path}/${name}/endpointConfigurations`)).body, []);
    }
  });

  test("has no credential, or one that cannot be sent", async () => {
    await using server = await startServer();
    const ask = async (name: string, spec: object) => {
      assert.equal((await server.call("POST", path, { body: { metadata: { name }, spec } })).status, 200);
      return server.call("GET", `${path}/${name}/models`);
    };
    const cases: [object, RegExp][] = [
      [{ integration: "anthropic" }, /spec\.secret\.apiKey \(or ANTHROPIC_API_KEY\) is required to ask Anthropic/],
      [{ integration: "openai", secret: { key: "x" } }, /spec\.secret\.apiKey \(or OPENAI_API_KEY\) is required/],
      [{ integration: "xai", secret: { apiKey: "" } }, /spec\.secret\.apiKey/],
      [
        { integration: "mistral", secret: { apiKey: "a\r\nx-evil: 1" } },
        /spec\.secret\.apiKey must be 1 to 8192 visible ASCII/,
      ],
      [{ integration: "cohere", secret: { apiKey: "a".repeat(8_193) } }, /spec\.secret\.apiKey must be/],
      [
        { integration: "openai", config: { organization: "a\nb" }, secret: { apiKey: "x" } },
        /spec\.config\.organization must be/,
      ],
      [{ integration: "azure-ai-foundry", secret: { apiKey: "x" } }, /spec\.config\.endpoint is required/],
      [{ integration: "openai-compatible", secret: { apiKey: "x" } }, /spec\.config\.baseUrl is required/],
    ];
    for (const [index, [spec, reason]] of cases.entries()) {
      const answer = await ask(`c${index}`, spec);
      assert.equal(answer.status, 400, answer.text);
      assert.match(answer.body.message, reason);
    }
  });

  test("leads to a host that is not allowed any more", async () => {
    await using service = await startService((response) => json(response, 200, one));
    await using connected = await connect((response) => json(response, 200, one));
    const config = JSON.stringify({ baseUrl: service.origin });
    await connected.server.query("update integration_connections set config = ? where name = 'c'", config);
    const answer = await connected.list();
    assert.equal(answer.status, 400, answer.text);
    assert.match(answer.body.message, /^spec\.config\.baseUrl must be https/);
    assert.equal(service.connections(), 0);
  });
});

test("a server of one's own is asked without a credential when there is none", async () => {
  await using connected = await connect((response) => json(response, 200, one), { secret: {} });
  assert.deepEqual((await connected.list()).body, [
    { id: "m1", name: "m1", provider: "openai", createdAt: "2023-11-14T22:13:20.000Z" },
  ]);
  assert.equal(connected.service.asked[0]?.headers.authorization, undefined);
});

describe("a service that", () => {
  const cases: [string, Respond, RegExp][] = [
    [
      "limits how often it is asked",
      (response) => json(response, 429, { error: { message: "Rate limit reached" } }),
      /^OpenAI limits how often it may be asked \(429\): Rate limit reached/,
    ],
    ["fails", (response) => json(response, 500, { error: "x" }), /^OpenAI failed \(500\): x/],
    ["fails without a word", (response) => response.writeHead(503).end(), /^OpenAI failed \(503\)$/],
    [
      "fails in HTML",
      (response) => response.writeHead(502, { "content-type": "text/html" }).end("<h1>Bad"),
      /^OpenAI failed \(502\)$/,
    ],
    ["is another one", (response) => json(response, 404, {}), /no list of models at this address \(404\)/],
    ["answers in HTML", (response) => response.end("<html>"), /answered with something that is not JSON/],
    ["answers in half a JSON", (response) => response.end('{"data":[{"id":"a"}'), /not JSON/],
    ["answers without a list", (response) => json(response, 200, { data: { id: "a" } }), /without a list of data/],
    ["answers with a text", (response) => json(response, 200, "data"), /without a list of data/],
    ["answers with nothing", (response) => response.end(), /not JSON/],
    ["nests without end", (response) => response.end(`{"data":${"[".repeat(100_000)}`), /too many values/],
    ["lists without end", (response) => response.end(`{"data":[${"0,".repeat(250_000)}0]}`), /too many values/],
    [
      "lists too many",
      (response) => json(response, 200, { data: Array.from({ length: 10_001 }, (_, id) => ({ id: `m${id}` })) }),
      /more than 10000 models/,
    ],
    ["says too much", (response) => response.end(`"${"a".repeat(5_000_000)}"`), /more than 4194304 bytes/],
    ["says nothing", () => undefined, /did not answer in time/],
    ["stops", (response) => void response.write('{"data":['), /did not answer in time/],
    [
      "sends elsewhere",
      (response) => response.writeHead(302, { location: "http://169.254.169.254/" }).end(),
      /redirected to another origin/,
    ],
    ["hangs up", (response) => response.destroy(), /cannot be reached/],
  ];
  for (const [what, respond, reason] of cases) {
    test(`${what} is told about, with 502`, async () => {
      await using connected = await connect(respond);
      assertUpstreamFailed(await connected.list(), reason);
    });
  }

  test("is not there is told about, with 502", async () => {
    await using connected = await connect((response) => json(response, 200, one));
    await connected.service[Symbol.asyncDispose]();
    assertUpstreamFailed(await connected.list(), /^OpenAI cannot be reached\.$/);
  });

  test("lists oddities is read for what is a model", async () => {
    const odd = [
      null,
      5,
      "m",
      [],
      {},
      { id: 5 },
      { id: "" },
      { id: "a\u0000b" },
      { id: "x".repeat(257) },
      { id: "ok", created: "soon", context_length: -1 },
    ];
    await using connected = await connect((response) => json(response, 200, { data: odd }));
    assert.deepEqual((await connected.list()).body, [{ id: "ok", name: "ok", provider: "openai" }]);
  });

  test("repeats the credential finds it in no answer and in no log", async () => {
    const echoes: Respond[] = [
      (response, { headers }) => json(response, 401, { error: { message: `no: ${headers.authorization}` } }),
      (response) => json(response, 401, { error: encodeURIComponent(credential) }),
      (response) => json(response, 403, { message: Buffer.from(credential).toString("base64") }),
      (response) => json(response, 500, { detail: `${credential.slice(0, 20)} and ${credential.slice(-8)}` }),
      (response, { headers }) =>
        json(response, 200, { data: [{ id: "m1" }, { id: "m2", name: headers.authorization }, { id: credential }] }),
      (response, { headers }) =>
        response.writeHead(302, { location: `https://evil.example/${headers.authorization}` }).end(),
      (response, { headers }) => response.end(headers.authorization),
    ];
    for (const echo of echoes) {
      await using connected = await connect(echo);
      const answer = await connected.list();
      for (let index = 0; index + 6 <= credential.length; index++) {
        const part = credential.slice(index, index + 6);
        assert.ok(!answer.text.includes(part), answer.text);
        assert.ok(!connected.server.logged().includes(part), "in the log");
      }
      assert.ok(!answer.text.includes(Buffer.from(credential).toString("base64").slice(0, 12)), answer.text);
    }
  });
});

describe("pages", () => {
  const page = (next: string | undefined) => ({
    models: [{ name: "m" }],
    ...(next !== undefined && { next_page_token: next }),
  });

  test("that lead in a circle are left", async () => {
    let count = 0;
    await using connected = await connect((response) => json(response, 200, page(count++ % 2 === 0 ? "a" : "b")), {
      integration: "cohere",
    });
    assertUpstreamFailed(await connected.list(), /^Cohere listed the same page again and again/);
    assert.equal(connected.service.asked.length, 3);
  });

  test("that do not end are left", async () => {
    let count = 0;
    await using connected = await connect((response) => json(response, 200, page(`t${count++}`)), {
      integration: "cohere",
    });
    assertUpstreamFailed(await connected.list(), /^Cohere listed more than 50 pages/);
    assert.equal(connected.service.asked.length, 50);
  });

  test("by links stay at their origin; those of a project are its deployments", async () => {
    await using other = await startService((response) => json(response, 200, { value: [] }));
    let elsewhere = false;
    const respond: Respond = (response, { url, headers }) => {
      const second = url.searchParams.get("skip") !== null;
      const nextLink = elsewhere
        ? `${other.origin}/deployments`
        : `http://${headers.host}${url.pathname}?api-version=v1&skip=1`;
      const first = {
        type: "ModelDeployment",
        name: "chat",
        modelName: "gpt-4o",
        modelVersion: "2024-11-20",
        modelPublisher: "OpenAI",
      };
      json(response, 200, second ? { value: [{ name: "bare" }] } : { value: [first], nextLink });
    };
    await using service = await startService(respond);
    await using server = await startServer({ config: { outgoing: { allowedHosts: [service.host, other.host] } } });
    for (const name of ["here", "there"]) {
      const config = { endpoint: `${service.origin}/api/projects/p1` };
      const spec = { integration: "azure-ai-foundry", config, secret: { apiKey: credential } };
      await server.call("POST", path, { body: { metadata: { name }, spec } });
    }
    assert.deepEqual((await server.call("GET", `${path}/here/models`)).body, [
      { id: "chat", name: "gpt-4o 2024-11-20", provider: "OpenAI" },
      { id: "bare", name: "bare", provider: "azure-ai-foundry" },
    ]);
    elsewhere = true;
    assertUpstreamFailed(await server.call("GET", `${path}/there/models`), /continues its list at another origin/);
    assert.equal(other.connections(), 0);
  });
});

describe("asking", () => {
  test("the same connection at the same moment, and again soon after, asks the service once", async () => {
    await using connected = await connect((response) => setImmediate(() => json(response, 200, one)));
    const answers = await Promise.all(Array.from({ length: 20 }, () => connected.list()));
    assert.ok(answers.every(({ status }) => status === 200));
    assert.equal((await connected.list()).status, 200);
    assert.equal(connected.service.asked.length, 1);
  });

  test("after a change asks again, with the new credential", async () => {
    await using connected = await connect((response) => json(response, 200, one));
    await connected.list();
    const config = { baseUrl: connected.service.origin };
    const spec = { integration: "openai", config, secret: { apiKey: "new-key" } };
    await connected.server.call("PUT", `${path}/c`, { body: { metadata: { name: "c" }, spec } });
    await connected.list();
    assert.deepEqual(
      connected.service.asked.map(({ headers }) => headers.authorization),
      [`Bearer ${credential}`, "Bearer new-key"],
    );
    await connected.server.call("DELETE", `${path}/c`);
    assert.equal((await connected.list()).status, 404);
  });

  test("a failure is not remembered", async () => {
    let works = false;
    await using connected = await connect((response) => (works ? json(response, 200, one) : json(response, 500, {})));
    assert.equal((await connected.list()).status, 502);
    works = true;
    assert.equal((await connected.list()).status, 200);
  });

  test("happens four times at once in a workspace, and thirty times a minute", async () => {
    const held: Parameters<Respond>[0][] = [];
    let hold = true;
    await using connected = await connect((response) => (hold ? void held.push(response) : json(response, 500, {})));
    const { server, service } = connected;
    for (let index = 0; index < 5; index++) {
      const spec = { integration: "openai", config: { baseUrl: service.origin }, secret: { apiKey: "key" } };
      await server.call("POST", path, { body: { metadata: { name: `c${index}` }, spec } });
    }
    const asking = [0, 1, 2, 3].map((index) => server.call("GET", `${path}/c${index}/models`));
    await until("four are being asked", () => (held.length === 4 ? true : undefined));
    const fifth = await server.call("GET", `${path}/c4/models`);
    assert.equal(fifth.status, 429, fifth.text);
    for (const response of held) json(response, 200, one);
    assert.ok((await Promise.all(asking)).every(({ status }) => status === 200));
    hold = false;
    const statuses: number[] = [];
    for (let time = 0; time < 28; time++) statuses.push((await server.call("GET", `${path}/c4/models`)).status);
    assert.deepEqual(statuses, [...Array<number>(26).fill(502), 429, 429]);
  });
});

test("kinds are described to whoever wants to connect, and unknown ones are 404", async () => {
  await using server = await startServer();
  const { body } = await server.call("GET", "/v0/integrations/anthropic");
  assert.equal(body.name, "anthropic");
  assert.deepEqual(body.additionalInfos, {
    displayName: "Anthropic",
    secretKeys: "apiKey, ANTHROPIC_API_KEY",
    configKeys: "baseUrl, version",
    listsModels: "true",
    baseUrl: "https://api.anthropic.com",
  });
  assert.deepEqual(body.endpoints.messages, { method: "POST", models: [], ignoreModels: [] });
  assert.deepEqual(body.headers, { "anthropic-version": "2023-06-01" });
  for (const kind of ["azure-ai-foundry", "openai-compatible", "gmail", "huggingface"]) {
    assert.equal((await server.call("GET", `/v0/integrations/${kind}`)).status, 200, kind);
  }
  for (const name of ["none", "constructor", "__proto__", "Anthropic"]) {
    assert.equal((await server.call("GET", `/v0/integrations/${name}`)).status, 404, name);
  }
  assert.equal((await server.call("GET", "/v0/integrations/anthropic", { key: null })).status, 401);
});
