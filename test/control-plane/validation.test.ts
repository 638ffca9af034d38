// What may be asked of a sandbox: each limit at, below and above its boundary, and messages that name the field and its rule.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { envMaxBytes, envsMaxBytes } from "../../src/contract/sandbox-spec.ts";
import { isName } from "../../src/core/names.ts";
import { type Server, startServer } from "./harness.ts";

type Input = { metadata?: object; spec?: object };

async function accepts(server: Server, input: Input): Promise<void> {
  const answer = await server.create(input);
  assert.equal(answer.status, 200, `${JSON.stringify(input).slice(0, 200)} -> ${answer.text}`);
  await server.call("DELETE", `/v0/sandboxes/${answer.body.metadata.name}`);
}

async function refuses(server: Server, input: Input, message: RegExp, code = "INVALID_REQUEST"): Promise<void> {
  const answer = await server.create(input);
  assert.equal(answer.status, 400, `${JSON.stringify(input).slice(0, 200)} -> ${answer.text.slice(0, 200)}`);
  assert.equal(answer.body.code, code);
  assert.match(answer.body.message, message);
}

test("names follow the rule of the specification, whatever is tried", async () => {
  await using server = await startServer();
  const candidate = fc.oneof(
    fc.string({ minLength: 1, maxLength: 60 }),
    fc.string({ unit: fc.constantFrom("a", "z", "0", "-", "A", "_", "."), minLength: 1, maxLength: 55 }),
  );
  await fc.assert(
    fc.asyncProperty(candidate, async (name) => {
      const { status, body } = await server.create({ metadata: { name } });
      assert.equal(status, isName(name) ? 200 : 400, name);
      if (status === 200) {
        assert.equal(body.metadata.name, name);
        await server.call("DELETE", `/v0/sandboxes/${name}`);
      } else {
        assert.match(body.message, /^metadata\.name /);
      }
    }),
    { numRuns: 150 },
  );
});

test("generated names are names, and differ", async () => {
  await using server = await startServer();
  const names = new Set<string>();
  for (let count = 0; count < 20; count++) names.add((await server.create()).body.metadata.name);
  assert.equal(names.size, 20);
  assert.ok([...names].every(isName));
});

test("metadata limits", async () => {
  await using server = await startServer();
  await accepts(server, { metadata: { name: "a".repeat(49) } });
  await refuses(
    server,
    { metadata: { name: "a".repeat(50) } },
    /^metadata\.name must not have more than 49 characters/,
  );
  await refuses(server, { metadata: { name: "" } }, /^metadata\.name must not have fewer than 1 characters/);
  await refuses(
    server,
    { metadata: { name: "-a" } },
    /^metadata\.name must be lowercase letters, digits and inner hyphens$/,
  );
  await refuses(server, { metadata: { name: 7 } }, /^metadata\.name must be a string$/);
  await accepts(server, { metadata: { displayName: 'Ünïcödé 🦊 & "quotes"'.padEnd(62, "x") } });
  await accepts(server, { metadata: { displayName: "🦊".repeat(63) } });
  await refuses(
    server,
    { metadata: { displayName: "x".repeat(64) } },
    /^metadata\.displayName must not have more than 63/,
  );
  await accepts(server, { metadata: { externalId: "Aa-0".repeat(16) } });
  await refuses(
    server,
    { metadata: { externalId: "a".repeat(65) } },
    /^metadata\.externalId must not have more than 64/,
  );
  await refuses(
    server,
    { metadata: { externalId: "a_b" } },
    /^metadata\.externalId must be letters, digits and dashes$/,
  );
  const labels = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, "v"]));
  await accepts(server, { metadata: { labels: labels(64) } });
  await refuses(server, { metadata: { labels: labels(65) } }, /^metadata\.labels must not have more than 64/);
  await accepts(server, { metadata: { labels: { ["k".repeat(128)]: "v".repeat(256) } } });
  await refuses(
    server,
    { metadata: { labels: { ["k".repeat(129)]: "v" } } },
    /^metadata\.labels must be a map whose keys/,
  );
  await refuses(server, { metadata: { labels: { "a\nb": 5 } } }, /^metadata\.labels must be a map whose keys/);
  await refuses(
    server,
    { metadata: { labels: { k: "v".repeat(257) } } },
    /^metadata\.labels\.k must not have more than 256/,
  );
  await refuses(server, { metadata: { labels: { k: 1 } } }, /^metadata\.labels\.k must be a string$/);
  await refuses(server, { metadata: { labels: [] } }, /^metadata\.labels must be an object$/);
});

test("memory is a whole number of megabytes between the platform's least and the installation's most", async () => {
  await using server = await startServer({ settings: { CATNAP_MEMORY_MAX_MB: "2048" } });
  const memory = (value: unknown) => ({ spec: { runtime: { memory: value } } });
  await accepts(server, memory(128));
  await accepts(server, memory(2048));
  await refuses(server, memory(127), /^spec\.runtime\.memory must be at least 128$/);
  await refuses(server, memory(2049), /^spec\.runtime\.memory must be at most 2048$/);
  await refuses(server, memory(0), /^spec\.runtime\.memory must be/);
  await refuses(server, memory(512.5), /^spec\.runtime\.memory must be an integer$/);
  await refuses(server, memory("512"), /^spec\.runtime\.memory must be an integer$/);
  const { body } = await server.create();
  assert.equal(body.spec.runtime.memory, 2048, "the default does not exceed what is allowed");
});

test("ports", async () => {
  await using server = await startServer();
  const ports = (...list: unknown[]) => ({ spec: { runtime: { ports: list } } });
  await accepts(server, ports({ target: 1 }, { target: 65_535, name: "last", protocol: "UDP" }, { target: 8080 }));
  for (const protocol of ["HTTP", "TCP", "UDP", "TLS"]) await accepts(server, ports({ target: 3000, protocol }));
  for (const target of [80, 443]) {
    await refuses(
      server,
      ports({ target }),
      new RegExp(`^spec\\.runtime\\.ports\\[0\\]\\.target must not be ${target}`),
    );
  }
  await refuses(server, ports({ target: 0 }), /^spec\.runtime\.ports\[0\]\.target must be at least 1$/);
  await refuses(server, ports({ target: 65_536 }), /^spec\.runtime\.ports\[0\]\.target must be at most 65535$/);
  await refuses(server, ports({}), /^spec\.runtime\.ports\[0\]\.target is required$/);
  await refuses(
    server,
    ports({ target: 5, protocol: "SCTP" }),
    /ports\[0\]\.protocol must be one of HTTP, TCP, UDP, TLS$/,
  );
  await refuses(server, ports({ target: 5 }, { target: 5 }), /^spec\.runtime\.ports\[1\]\.target must differ/);
  await refuses(
    server,
    ports(...Array.from({ length: 101 }, (_, index) => ({ target: 1000 + index }))),
    /^spec\.runtime\.ports/,
  );
});

test("environment variables", async () => {
  await using server = await startServer();
  const envs = (...list: unknown[]) => ({ spec: { runtime: { envs: list } } });
  await accepts(server, envs({ name: "A", value: "" }, { name: "b.c-d e", value: "line\nbreak" }, { name: "EMPTY" }));
  assert.deepEqual(server.host.requests.at(-1)?.environment, { A: "", "b.c-d e": "line\nbreak", EMPTY: "" });
  await accepts(server, envs({ name: "BIG", value: "x".repeat(envMaxBytes - 5) }));
  await refuses(
    server,
    envs({ name: "BIG", value: "x".repeat(envMaxBytes - 4) }),
    /^spec\.runtime\.envs\[0\] must have at most/,
  );
  const many = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ name: `N${index}`, value: "x".repeat(100_000) }));
  await accepts(server, envs(...many(9)));
  await refuses(
    server,
    envs(...many(10)),
    new RegExp(`^spec\\.runtime\\.envs must have at most ${envsMaxBytes} bytes in total$`),
  );
  await refuses(server, envs({ name: "A=B", value: "" }), /^spec\.runtime\.envs\[0\]\.name must be without/);
  await refuses(server, envs({ name: "", value: "" }), /^spec\.runtime\.envs\[0\]\.name must not have fewer/);
  await refuses(server, envs({ name: "A", value: "a\0b" }), /^spec\.runtime\.envs\[0\]\.value must be without NUL$/);
  await refuses(
    server,
    envs({ name: "A", value: "1" }, { name: "A", value: "2" }),
    /^spec\.runtime\.envs\[1\]\.name must differ/,
  );
  await refuses(server, envs({ value: "1" }), /^spec\.runtime\.envs\[0\]\.name is required$/);
  await refuses(
    server,
    envs({ name: "A", value: "********", secret: true }),
    /^spec\.runtime\.envs\[0\]\.value must be the value/,
  );
});

test("the region is the installation's, or left to it", async () => {
  await using server = await startServer({ settings: { CATNAP_REGION: "eu-lon-1" } });
  await accepts(server, { spec: { region: "eu-lon-1" } });
  await accepts(server, { spec: { region: "auto" } });
  await refuses(server, { spec: { region: "us-pdx-1" } }, /^spec\.region must be eu-lon-1$/);
  assert.equal((await server.create()).body.spec.region, "eu-lon-1");
});

test("images are named without spaces", async () => {
  await using server = await startServer();
  const image = (name: unknown) => ({ spec: { runtime: { image: name } } });
  await accepts(server, image("blaxel/py-app:latest"));
  await refuses(server, image("a b"), /^spec\.runtime\.image must be an image name without spaces$/);
  await refuses(server, image(""), /^spec\.runtime\.image must not have fewer/);
  await refuses(server, image("x".repeat(513)), /^spec\.runtime\.image must not have more than 512/);
});

test("the retention of records", async () => {
  await using server = await startServer();
  const retention = (terminatedRetention: unknown) => ({ spec: { lifecycle: { terminatedRetention } } });
  for (const text of ["0s", "5m", "24h", "7d", "1w", "999999999999w"]) await accepts(server, retention(text));
  for (const text of ["5", "5 m", "-1s", "1y", "", "1.5h"]) {
    await refuses(
      server,
      retention(text),
      /^spec\.lifecycle\.terminatedRetention must be a whole number and one of the units/,
    );
  }
});

test("what would change isolation or lifetime and does not exist yet is refused by name", async () => {
  await using server = await startServer();
  const refusesField = (spec: object, field: string) =>
    refuses(
      server,
      { spec },
      new RegExp(`^Not available in this version: ${field.replaceAll(/[.[\]]/g, "\\$&")}`),
      "FEATURE_NOT_AVAILABLE",
    );
  await refusesField({ runtime: { ttl: "1h" } }, "spec.runtime.ttl");
  await refusesField({ runtime: { expires: "2030-01-01T00:00:00Z" } }, "spec.runtime.expires");
  await refusesField({ runtime: { terminationGracePeriodSeconds: 1 } }, "spec.runtime.terminationGracePeriodSeconds");
  await refusesField({ runtime: { extraArgs: { tun: "enabled" } } }, "spec.runtime.extraArgs");
  const policy = { type: "ttl-idle", value: "30m", action: "delete" };
  await refusesField({ lifecycle: { expirationPolicies: [policy] } }, "spec.lifecycle.expirationPolicies");
  await refusesField({ volumes: [{ name: "data", mountPath: "/data" }] }, "spec.volumes");
  await refusesField({ network: { proxy: { allowedDomains: [] } } }, "spec.network.proxy");
  await refusesField({ vpc: "blue" }, "spec.vpc");
  await refusesField({ network: { subnet: "green" } }, "spec.network.subnet");
  await refusesField({ network: { firewall: { rulesets: ["proxy"] } } }, "spec.network.firewall.rulesets");
  await refusesField({ network: { egress: { mode: "dedicated" } } }, "spec.network.egress");
  await refusesField({ network: { allowedDomains: [] } }, "spec.network.allowedDomains");
  await refusesField({ network: { forbiddenDomains: ["a.example"] } }, "spec.network.forbiddenDomains");
  assert.equal(server.host.requests.length, 0);
});

test("values that ask for nothing are accepted, and so are unknown, read-only and null members", async () => {
  await using server = await startServer();
  const answer = await server.create({
    name: "neutral",
    metadata: { url: "http://elsewhere", createdAt: "never", workspace: "other", plan: "free", labels: null },
    spec: {
      h2Session: {},
      vpc: "default",
      volumes: [],
      lifecycle: { expirationPolicies: [] },
      network: {
        subnet: "default",
        firewall: { rulesets: ["default"] },
        egress: { gateway: null, policies: [] },
        forbiddenDomains: [],
        proxy: { routing: [], bypass: [] },
      },
      runtime: {
        generation: "mk3",
        snapshotEnabled: true,
        ttl: null,
        expires: null,
        extraArgs: { nfs: "disabled" },
        terminationGracePeriodSeconds: 0,
        envs: null,
      },
    },
  });
  assert.equal(answer.status, 200, answer.text);
  const { metadata, spec } = answer.body;
  assert.equal(metadata.workspace, "main");
  assert.ok(metadata.url.startsWith(server.url));
  assert.equal(metadata.labels, undefined);
  assert.equal(metadata.plan, undefined);
  assert.equal(spec.vpc, "default");
  assert.deepEqual(spec.network.proxy, { bypass: [], routing: [] });
  assert.equal(spec.runtime.generation, undefined);
  assert.equal(spec.runtime.ttl, undefined);
  assert.equal(spec.h2Session, undefined);
});

test("a whole resource may be sent back under another name", async () => {
  await using server = await startServer();
  const { body } = await server.create({
    name: "original",
    spec: { runtime: { memory: 256, ports: [{ target: 3000 }] } },
  });
  const copy = await server.call("POST", "/v0/sandboxes", {
    body: { ...body, metadata: { ...body.metadata, name: "copy" } },
  });
  assert.equal(copy.status, 200, copy.text);
  assert.deepEqual(copy.body.spec, body.spec);
});

test("several problems are named together", async () => {
  await using server = await startServer();
  await refuses(
    server,
    { metadata: { name: "UPPER" }, spec: { runtime: { memory: 1 } } },
    /metadata\.name must be .*; spec\.runtime\.memory must be at least 128/,
  );
});
