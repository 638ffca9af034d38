// Integration connections over HTTP: what is stored, returned, replaced and refused.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type Answer, type Server, startServer } from "../harness.ts";
import { addPerson, addWorkspace } from "../people.ts";

const path = "/v0/integrations/connections";
const secretValue = "sk-zebra-4711-crossing";
const mask = "********";

function create(server: Server, name: string, spec: object = {}, metadata: object = {}): Promise<Answer> {
  return server.call("POST", path, { body: { metadata: { name, ...metadata }, spec } });
}

function replace(server: Server, name: string, spec: object, metadata: object = {}): Promise<Answer> {
  return server.call("PUT", `${path}/${name}`, { body: { metadata: { name, ...metadata }, spec } });
}

function resolve(server: Server, name: string, key: string): Promise<string | undefined> {
  const { workspaceId } = server.controlPlane.bootstrap;
  return server.controlPlane.connections.resolveSecret(workspaceId, name, key);
}

test("a connection is created, read, listed and deleted; values of its secret are masked everywhere", async () => {
  await using server = await startServer();
  const spec = {
    integration: "gmail",
    sandbox: true,
    config: { region: "eu" },
    secret: { CLIENT_SECRET: secretValue },
  };
  const metadata = { displayName: "Mail of Ann", externalId: "mail-1", labels: { team: "a" } };
  const created = await create(server, "mail", spec, metadata);
  assert.equal(created.status, 200, created.text);
  const { createdAt, updatedAt, createdBy, updatedBy, ...rest } = created.body.metadata;
  assert.deepEqual(rest, { name: "mail", ...metadata, workspace: "main" });
  assert.match(createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.deepEqual([updatedAt, updatedBy], [createdAt, createdBy]);
  assert.deepEqual(created.body.spec, { ...spec, secret: { CLIENT_SECRET: mask } });
  assert.deepEqual((await server.call("GET", `${path}/mail`)).body, created.body);
  await create(server, "plain");
  const listed = await server.call("GET", path, { headers: { "blaxel-version": "2026-04-28" } });
  assert.deepEqual(listed.body.map((item: { metadata: { name: string } }) => item.metadata.name).sort(), [
    "mail",
    "plain",
  ]);
  assert.deepEqual((await server.call("DELETE", `${path}/mail`)).body, created.body);
  assert.equal((await server.call("GET", `${path}/mail`)).status, 404);
  assert.equal((await server.call("DELETE", `${path}/mail`)).status, 404);
  assert.equal((await create(server, "mail")).status, 200);
});

test("no value of a secret is in the files, the database, the log or an answer", async () => {
  await using server = await startServer();
  const secret = { apiKey: secretValue, other: `${secretValue}-2` };
  const answers = [
    await create(server, "a", { integration: "openai", secret }),
    await create(server, "a", { integration: "openai", secret }),
    await create(server, "b", { integration: "none-such", secret }),
    await create(server, "c", { secret: { "bad key": secretValue } }),
    await create(server, "c", { secret: { key: `${secretValue}\0` } }),
    await create(server, "c", { secret: secretValue }),
    await replace(server, "a", { integration: "xai", secret: { ...secret, apiKey: mask } }),
    await replace(server, "a", { integration: "openai", secret: { apiKey: `${secretValue}-3` } }),
    await server.call("GET", path),
    await server.call("DELETE", `${path}/a`),
  ];
  for (const { text } of answers) assert.ok(!text.includes(secretValue), text);
  await create(server, "kept", { secret });
  assert.equal(await resolve(server, "kept", "apiKey"), secretValue);
  const stored = await server.stored();
  assert.ok(!stored.includes(secretValue), "found in what is stored");
  assert.ok(stored.includes("kept"), "what is stored was read");
  assert.ok(!server.logged().includes(secretValue), "found in the log");
});

test("a sealed secret opens for its own connection only", async () => {
  await using server = await startServer();
  await create(server, "a", { secret: { key: "of a" } });
  await create(server, "b", { secret: { key: "of b" } });
  const [sealed] = await server.query<{ sealed_secret: string }>(
    "select sealed_secret from integration_connections where name = 'a'",
  );
  await server.query(
    "update integration_connections set sealed_secret = ? where name = 'b'",
    sealed?.sealed_secret ?? "",
  );
  await assert.rejects(resolve(server, "b", "key"));
  assert.equal(await resolve(server, "a", "key"), "of a");
});

describe("replacing a connection", () => {
  const config = { baseUrl: "https://llm.example/v1" };
  const start = async (): Promise<Server> => {
    const server = await startServer();
    const secret = { apiKey: secretValue, second: "two" };
    await create(server, "c", { integration: "openai", config, secret }, { displayName: "C", labels: { a: "b" } });
    return server;
  };

  test("by what was read changes nothing but its time", async () => {
    await using server = await start();
    const before = (await server.call("GET", `${path}/c`)).body;
    const after = await server.call("PUT", `${path}/c`, { body: { ...before, status: "x", unknown: [1] } });
    assert.equal(after.status, 200, after.text);
    const { updatedAt, ...metadata } = after.body.metadata;
    assert.ok(updatedAt >= before.metadata.updatedAt);
    assert.deepEqual({ ...metadata, updatedAt: before.metadata.updatedAt }, before.metadata);
    assert.deepEqual(after.body.spec, before.spec);
    assert.equal(await resolve(server, "c", "apiKey"), secretValue);
  });

  test("keeps masked values, takes new ones and drops the rest; without a secret all values stay", async () => {
    await using server = await start();
    const one = await replace(server, "c", { integration: "openai", config, secret: { apiKey: mask, third: "three" } });
    assert.deepEqual(one.body.spec.secret, { apiKey: mask, third: mask });
    assert.deepEqual(one.body.metadata.displayName, undefined);
    assert.equal(await resolve(server, "c", "apiKey"), secretValue);
    assert.equal(await resolve(server, "c", "second"), undefined);
    assert.equal(await resolve(server, "c", "third"), "three");
    const two = await replace(server, "c", { integration: "openai", config });
    assert.deepEqual(two.body.spec.secret, { apiKey: mask, third: mask });
    const three = await replace(server, "c", { integration: "openai", config, secret: null });
    assert.deepEqual(three.body.spec.secret, { apiKey: mask, third: mask });
    const none = await replace(server, "c", { integration: "openai", config, secret: {} });
    assert.deepEqual(none.body.spec.secret, {});
    assert.equal(await resolve(server, "c", "apiKey"), undefined);
  });

  test("a mask for a key that has no value is refused", async () => {
    await using server = await start();
    const answer = await replace(server, "c", { integration: "openai", config, secret: { fourth: mask } });
    assert.equal(answer.status, 400);
    assert.match(answer.body.message, /spec\.secret\.fourth must be the value itself/);
    assert.equal((await create(server, "d", { secret: { key: mask } })).status, 400);
    assert.equal((await replace(server, "c", { secret: { constructor: mask } })).status, 400);
  });

  test("kept values do not go to another place or another service", async () => {
    await using server = await start();
    const moves = [
      { integration: "openai", config: { baseUrl: "https://evil.example/v1" } },
      { integration: "openai", config: { baseUrl: "https://evil.example/v1" }, secret: { apiKey: mask } },
      { integration: "openai" },
      { integration: "openai", config: { baseUrl: null }, secret: { apiKey: mask } },
      { integration: "anthropic", config, secret: { apiKey: mask } },
      { config, secret: { apiKey: mask } },
    ];
    for (const spec of moves) {
      const answer = await replace(server, "c", spec);
      assert.equal(answer.status, 400, JSON.stringify(spec));
      assert.match(
        answer.body.message,
        /spec\.secret\.apiKey must be given again, because spec\.(config\.baseUrl|integration) changes/,
      );
    }
    const moved = await replace(server, "c", {
      integration: "openai",
      config: { baseUrl: "https://new.example" },
      secret: { apiKey: "new" },
    });
    assert.equal(moved.status, 200, moved.text);
    assert.equal(await resolve(server, "c", "apiKey"), "new");
  });

  test("does not rename it, and does not make one", async () => {
    await using server = await start();
    const renamed = await server.call("PUT", `${path}/c`, { body: { metadata: { name: "d" }, spec: {} } });
    assert.equal(renamed.status, 400);
    assert.match(renamed.body.message, /metadata\.name/);
    assert.equal((await replace(server, "none", {})).status, 404);
    assert.equal(
      (await server.call("PUT", `${path}/UPPER`, { body: { metadata: { name: "c" }, spec: {} } })).status,
      404,
    );
  });

  test("at the same moment loses no change that was acknowledged", async () => {
    await using server = await start();
    const spec = { integration: "openai", config };
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) =>
        replace(server, "c", { ...spec, secret: { apiKey: mask, [`key${index}`]: "v" } }),
      ),
    );
    assert.ok(answers.every(({ status }) => status === 200 || status === 409));
    const [row] = await server.query<{ revision: number }>(
      "select revision from integration_connections where name = 'c'",
    );
    assert.equal(row?.revision, 1 + answers.filter(({ status }) => status === 200).length);
    assert.equal(await resolve(server, "c", "apiKey"), secretValue);
  });
});

describe("is refused", () => {
  const texts = (count: number, length = 1) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, "v".repeat(length)]));
  const cases: [string, object, object, RegExp | undefined][] = [
    ["a name in capitals", { name: "Upper" }, {}, /metadata\.name must be lowercase/],
    ["an empty name", { name: "" }, {}, /metadata\.name/],
    ["no name", { name: null }, {}, /metadata\.name is required/],
    ["a name of 50 characters", { name: "a".repeat(50) }, {}, /metadata\.name/],
    ["a name of 49 characters, not", { name: "a".repeat(49) }, {}, undefined],
    ["a display name of 64 characters", { displayName: "a".repeat(64) }, {}, /metadata\.displayName/],
    ["an external id with an underscore", { externalId: "a_b" }, {}, /metadata\.externalId/],
    ["an unknown kind", {}, { integration: "none-such" }, /spec\.integration must be one of .*anthropic.*slack.*xai/],
    ["a kind that is an inherited name", {}, { integration: "constructor" }, /spec\.integration must be one of/],
    ["a config that is a list", {}, { config: ["a"] }, /spec\.config/],
    ["a number as a config value", {}, { config: { a: 1 } }, /spec\.config\.a/],
    ["65 entries", {}, { config: texts(65) }, /spec\.config/],
    ["64 entries, not", {}, { config: texts(64), secret: texts(64) }, undefined],
    ["a config value of 4097 characters", {}, { config: texts(1, 4097) }, /spec\.config\.k0/],
    ["a config value of 4096 characters, not", {}, { config: texts(1, 4096) }, undefined],
    ["a secret value of 32769 characters", {}, { secret: texts(1, 32_769) }, /spec\.secret\.k0/],
    ["a secret value of 32768 characters, not", {}, { secret: texts(1, 32_768) }, undefined],
    ["more than 131072 bytes together", {}, { secret: texts(5, 30_000) }, /at most 131072 bytes together/],
    ["a key with a space", {}, { secret: { "a b": "c" } }, /visible ASCII/],
    ["a key of 129 characters", {}, { secret: { ["a".repeat(129)]: "c" } }, /visible ASCII/],
    [
      "an address inside",
      {},
      { integration: "openai", config: { baseUrl: "https://169.254.169.254/" } },
      /spec\.config\.baseUrl must not lead to an address inside/,
    ],
    [
      "an address without TLS",
      {},
      { integration: "mistral", config: { baseUrl: "http://example.com" } },
      /spec\.config\.baseUrl must be https/,
    ],
    [
      "an address with credentials",
      {},
      { integration: "cohere", config: { baseUrl: "https://a:b@example.com" } },
      /spec\.config\.baseUrl must not carry credentials/,
    ],
    [
      "an address with a query",
      {},
      { integration: "azure-ai-foundry", config: { endpoint: "https://a.openai.azure.com/?x=1" } },
      /spec\.config\.endpoint/,
    ],
    [
      "an address that is none",
      {},
      { integration: "gemini", config: { baseUrl: "x" } },
      /spec\.config\.baseUrl must be an absolute URL/,
    ],
  ];

  test("by its limits, and named", async () => {
    await using server = await startServer();
    for (const [index, [what, metadata, spec, rule]] of cases.entries()) {
      const answer = await create(server, `c${index}`, spec, metadata);
      assert.equal(answer.status, rule === undefined ? 200 : 400, `${what}: ${answer.text}`);
      if (rule !== undefined) assert.match(answer.body.message, rule, what);
    }
    assert.equal((await server.call("POST", path, { body: { metadata: { name: "x" } } })).status, 400);
    assert.equal((await server.call("POST", path)).status, 400);
  });

  test("without a credential, a scope or the role", async () => {
    await using server = await startServer();
    await create(server, "c", { secret: { key: secretValue } });
    const mia = await addPerson(server, "mia");
    const body = { metadata: { name: "c" }, spec: {} };
    const requests: [string, string, object?][] = [
      ["GET", path],
      ["POST", path, body],
      ["GET", `${path}/c`],
      ["PUT", `${path}/c`, body],
      ["DELETE", `${path}/c`],
      ["GET", `${path}/c/models`],
      ["GET", `${path}/c/models/m`],
      ["GET", `${path}/c/endpointConfigurations`],
    ];
    for (const [method, at, sent] of requests) {
      const options = sent === undefined ? {} : { body: sent };
      assert.equal((await server.call(method, at, { ...options, key: null })).status, 401, `${method} ${at}`);
      assert.equal((await server.call(method, at, { ...options, key: mia.apiKey })).status, 403, `${method} ${at}`);
    }
    assert.equal((await server.call("GET", `${path}/c`)).status, 200);
  });
});

test("another workspace sees nothing of a connection, and may use its name", async () => {
  await using server = await startServer();
  await create(server, "c", { integration: "openai", secret: { apiKey: secretValue } });
  await addWorkspace(server, "second");
  const headers = { "x-blaxel-workspace": "second" };
  for (const [method, suffix] of [
    ["GET", ""],
    ["DELETE", ""],
    ["GET", "/models"],
    ["GET", "/models/m"],
    ["GET", "/endpointConfigurations"],
  ] as const) {
    assert.equal((await server.call(method, `${path}/c${suffix}`, { headers })).status, 404, suffix);
  }
  assert.deepEqual((await server.call("GET", path, { headers })).body, []);
  assert.equal((await server.call("POST", path, { headers, body: { metadata: { name: "c" }, spec: {} } })).status, 200);
  assert.equal(await resolve(server, "c", "apiKey"), secretValue);
});

test("of fifty creations of one name at the same moment one succeeds", async () => {
  await using server = await startServer();
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, index) => create(server, "one", { secret: { key: `value ${index}` } })),
  );
  const counts = answers.map(({ status }) => status).sort();
  assert.deepEqual(counts, [200, ...Array<number>(49).fill(409)]);
  const winner = answers.findIndex(({ status }) => status === 200);
  assert.equal(await resolve(server, "one", "key"), `value ${winner}`);
  assert.equal((await server.call("GET", path)).body.length, 1);
  const conflict = answers.find(({ status }) => status === 409);
  assert.equal(conflict?.body.error, "already_exists");
});

test("a connection that a sandbox uses is not deleted, until that sandbox is", async () => {
  await using server = await startServer();
  await create(server, "used", { secret: { key: secretValue } });
  const envs = [{ name: "TOKEN", valueFrom: { secretKeyRef: { name: "used", key: "key" } } }];
  const sandbox = await server.create({ name: "user", spec: { runtime: { envs } } });
  assert.equal(sandbox.status, 200, sandbox.text);
  const refused = await server.call("DELETE", `${path}/used`);
  assert.equal(refused.status, 409, refused.text);
  assert.match(refused.body.message, /used by the sandbox user/);
  await server.call("DELETE", "/v0/sandboxes/user");
  await server.controlPlane.reconcile();
  assert.equal((await server.call("DELETE", `${path}/used`)).status, 200);
});
