// The `sandbox` commands over HTTP: what they ask, what they print, how they end.
import assert from "node:assert/strict";
import { test } from "node:test";
import { cli } from "./run-cli.ts";
import { json, reset, sandbox, serveWire } from "./wire-server.ts";

test("create asks for what the options say and prints the name", async () => {
  await using server = await serveWire({ "POST /v0/sandboxes": json(200, sandbox("dev")) });
  const args = ["sandbox", "create", "--name", "dev", "--image", "alpine:3", "--memory", "512", "--region", "local"];
  const more = [
    "--env",
    "A=1=2",
    "--env",
    "HOST_VALUE",
    "--secret-env",
    "TOKEN",
    "--label",
    "team=a b",
    "--port",
    "5432/tcp",
  ];
  const run = await cli([...args, ...more], { env: { ...server.env, HOST_VALUE: "h", TOKEN: "t" } });
  assert.deepEqual([run.exitCode, run.stdout, run.stderr], [0, "dev\n", ""]);
  assert.deepEqual(JSON.parse(server.asked[0]!.body.toString()), {
    metadata: { name: "dev", labels: { team: "a b" } },
    spec: {
      region: "local",
      runtime: {
        image: "alpine:3",
        memory: 512,
        envs: [
          { name: "A", value: "1=2" },
          { name: "HOST_VALUE", value: "h" },
          { name: "TOKEN", value: "t", secret: true },
        ],
        ports: [{ target: 5432, protocol: "TCP" }],
      },
    },
  });
  assert.equal(server.asked[0]!.headers.authorization, "Bearer test-key");
});

test("a creation whose answer was lost is repeated with the same idempotency key", async () => {
  await using server = await serveWire({ "POST /v0/sandboxes": [reset, json(503, {}), json(200, sandbox("dev"))] });
  const run = await cli(["sandbox", "create", "--json"], { env: server.env });
  assert.equal(run.exitCode, 0);
  assert.equal(JSON.parse(run.stdout).metadata.name, "dev");
  const keys = server.asked.map(({ headers }) => headers["idempotency-key"]);
  assert.equal(keys.length, 3);
  assert.match(String(keys[0]), /^cli-[a-z0-9]{24}$/);
  assert.equal(new Set(keys).size, 1);
});

test("the reason a creation was refused is passed on, in text and in JSON", async () => {
  const refusal = {
    error: "invalid_request",
    code: "INVALID_IMAGE",
    message: "no image nope\u001b[2J",
    status_code: 400,
  };
  await using server = await serveWire({ "POST /v0/sandboxes": json(400, refusal) });
  const text = await cli(["sandbox", "create", "--image", "nope"], { env: server.env });
  assert.deepEqual([text.exitCode, text.stderr], [1, "catnap: no image nope\ufffd[2J\n"]);
  const asJson = await cli(["sandbox", "create", "--image", "nope", "--json"], { env: server.env });
  assert.equal(asJson.stdout, "");
  const { error, code, status, exitCode } = JSON.parse(asJson.stderr);
  assert.deepEqual(
    { error, code, status, exitCode },
    { error: "failure", code: "INVALID_IMAGE", status: 400, exitCode: 1 },
  );
});

test("list follows the pages and prints a table, names or JSON", async () => {
  const pages = [
    json(200, { data: [sandbox("a", { state: "STANDBY" })], meta: { hasMore: true, nextCursor: "c1", total: 2 } }),
    json(200, { data: [sandbox("b")], meta: { hasMore: false, total: 2 } }),
  ];
  await using server = await serveWire({ "GET /v0/sandboxes": [...pages, ...pages, ...pages] });
  const table = await cli(["sandbox", "list", "--status", "DEPLOYED", "--search", "x y", "--all"], { env: server.env });
  assert.match(
    table.stdout,
    /^NAME +STATUS +STATE +IMAGE +MEMORY +AGE +USED\na +DEPLOYED +STANDBY .* 2048 MB .*\nb +DEPLOYED +RUNNING /,
  );
  const query = new URL(server.asked[1]!.url, server.url).searchParams;
  assert.deepEqual(Object.fromEntries(query), {
    limit: "200",
    status: "DEPLOYED",
    showTerminated: "true",
    q: "x y",
    cursor: "c1",
  });
  assert.equal(server.asked[0]!.headers["blaxel-version"], "2026-04-28");
  assert.equal((await cli(["sandbox", "list", "--quiet"], { env: server.env })).stdout, "a\nb\n");
  const names = JSON.parse((await cli(["sandbox", "list", "--json"], { env: server.env })).stdout);
  assert.deepEqual(
    names.map(({ metadata }: { metadata: { name: string } }) => metadata.name),
    ["a", "b"],
  );
});

test("list understands servers that answer with a bare array", async () => {
  await using server = await serveWire({ "GET /v0/sandboxes": json(200, [sandbox("old")]) });
  assert.equal((await cli(["sandbox", "list", "-q"], { env: server.env })).stdout, "old\n");
});

test("get prints what a person wants to know, errors included", async () => {
  const errors = [{ time: "2026-01-01T00:00:00Z", code: "oom", message: "out of memory", fatal: false }];
  await using server = await serveWire({ "GET /v0/sandboxes/dev": json(200, sandbox("dev", { errors })) });
  const { stdout } = await cli(["sandbox", "get", "dev"], { env: server.env });
  assert.match(stdout, /^name +dev\nstatus +DEPLOYED, RUNNING\nimage +blaxel\/base-image:latest\nmemory +2048 MB\n/);
  assert.match(stdout, /\nerror +2026-01-01T00:00:00Z oom: out of memory\n/);
});

test("get of an unknown sandbox names the way out and ends with 3", async () => {
  await using server = await serveWire({});
  const run = await cli(["sandbox", "get", "nobody"], { env: server.env });
  assert.deepEqual([run.exitCode, run.stdout], [3, ""]);
  assert.equal(run.stderr, "catnap: There is no sandbox nobody.\n  `catnap sandbox list` shows what there is.\n");
});

test("delete does not act unasked where it cannot ask", async () => {
  await using server = await serveWire({});
  const run = await cli(["sandbox", "delete", "dev"], { env: server.env });
  assert.equal(run.exitCode, 2);
  assert.match(run.stderr, /Add --yes/);
  assert.equal(server.asked.length, 0);
});

test("delete tries every name once and tells which failed", async () => {
  await using server = await serveWire({
    "DELETE /v0/sandboxes/a": json(200, sandbox("a", { status: "DELETING" })),
    "DELETE /v0/sandboxes/c": json(200, sandbox("c", { status: "DELETING" })),
  });
  const run = await cli(["sandbox", "delete", "--yes", "a", "b", "c", "a"], { env: server.env });
  assert.deepEqual([run.exitCode, run.stdout], [3, "a\nc\n"]);
  assert.match(run.stderr, /no sandbox b/);
  assert.equal(server.asked.length, 3);
});

const statuses: [status: number, exitCode: number][] = [
  [400, 1],
  [401, 4],
  [403, 4],
  [404, 3],
  [409, 1],
  [500, 1],
];
for (const [status, exitCode] of statuses) {
  test(`an answer with status ${status} ends with ${exitCode} and the server's message`, async () => {
    await using server = await serveWire({
      "GET /v0/sandboxes": json(status, { error: "x", code: status, message: `said ${status}` }),
    });
    const run = await cli(["sandbox", "list"], { env: server.env });
    assert.equal(run.exitCode, exitCode);
    assert.match(run.stderr, new RegExp(`^catnap: said ${status}\n`));
  });
}

test("a gateway's nested error is understood", async () => {
  const error = { error: { code: "WORKLOAD_UNAVAILABLE", message: "not now", status: 404 } };
  await using server = await serveWire({ "GET /v0/sandboxes": json(400, error) });
  const run = await cli(["sandbox", "list", "--json"], { env: server.env });
  const { message, code } = JSON.parse(run.stderr);
  assert.deepEqual({ message, code }, { message: "not now", code: "WORKLOAD_UNAVAILABLE" });
});

test("reading is tried again when the connection breaks or the server is not ready", async () => {
  await using server = await serveWire({ "GET /v0/sandboxes": [reset, json(502, {}), json(200, [])] });
  const run = await cli(["sandbox", "list", "--json"], { env: server.env });
  assert.deepEqual([run.exitCode, run.stdout], [0, "[]\n"]);
});

test("a platform that does not run ends with 5 and says how to start it", async () => {
  const server = await serveWire({});
  await server[Symbol.asyncDispose]();
  const run = await cli(["sandbox", "list"], { env: server.env });
  assert.equal(run.exitCode, 5);
  assert.match(run.stderr, /Cannot reach a platform at http:.*ECONNREFUSED[\s\S]*npm start/);
});

test("a server that is no platform is said to be none", async () => {
  await using server = await serveWire({ "GET /v0/sandboxes": (_, response) => response.end("<html>") });
  const run = await cli(["sandbox", "list"], { env: server.env });
  assert.equal(run.exitCode, 1);
  assert.match(run.stderr, /is it a catnap platform/);
});

const wrong: [string[], RegExp][] = [
  [["sandbox", "create", "--memory", "lots"], /--memory takes a whole number of MB/],
  [["sandbox", "create", "--port", "70000"], /--port takes a number/],
  [["sandbox", "create", "--port", "80/ICMP"], /--port takes a number/],
  [["sandbox", "create", "--env", "=x"], /--env takes KEY=VALUE/],
  [["sandbox", "create", "--env", "NOT_SET"], /no such variable in your environment/],
  [["sandbox", "create", "--label", "x"], /--label takes KEY=VALUE/],
  [["sandbox", "create", "--nmae", "x"], /Unknown option '--nmae'[\s\S]*--name/],
  [["sandbox", "get"], /Missing required argument 'name'/],
  [["sandbocks"], /Unknown command 'sandbocks'[\s\S]*sandbox/],
];
for (const [args, message] of wrong) {
  test(`\`catnap ${args.join(" ")}\` is wrong usage`, async () => {
    const run = await cli(args, { env: { CATNAP_URL: "http://127.0.0.1:1", CATNAP_API_KEY: "k" } });
    assert.equal(run.exitCode, 2);
    assert.match(run.stderr, message);
  });
}

test("terminal makes a session that ends, and prints the address that opens it", async () => {
  const previews = "/v0/sandboxes/dev/previews";
  const made = (asked: { body: Buffer }) => JSON.parse(asked.body.toString());
  const url = "http://127.0.0.1:4000/run/preview/abc";
  await using server = await serveWire({
    [`POST ${previews}`]: (asked, response) =>
      json(200, { ...made(asked), spec: { ...made(asked).spec, url } })(asked, response),
  });
  const begunAt = Date.now();
  const failed = await cli(["sandbox", "terminal", "dev"], { env: server.env });
  assert.equal(failed.exitCode, 3, "the token's route is missing");
  const { metadata, spec } = made(server.asked[0]!);
  assert.match(metadata.name, /^terminal-[a-z0-9]{12}$/);
  assert.deepEqual([spec.port, spec.public], [443, false]);
  const ttlMs = Date.parse(spec.expires) - begunAt;
  assert.ok(ttlMs >= 3_600_000 && ttlMs < 3_900_000, String(ttlMs));
  assert.equal(server.asked[1]!.url, `${previews}/${metadata.name}/tokens`);
  assert.deepEqual(made(server.asked[1]!), { metadata: { name: metadata.name }, spec: { expiresAt: spec.expires } });
  for (const ttl of ["0s", "25h", "soon", "-1h", "1500"]) {
    const refused = await cli(["sandbox", "terminal", "dev", "--ttl", ttl], { env: server.env });
    assert.equal(refused.exitCode, 2, ttl);
    assert.match(refused.stderr, /--ttl takes a duration from 1s to 24h/);
  }
  assert.equal(server.asked.length, 2);
  const missing = await cli(["sandbox", "terminal", "none"], { env: server.env });
  assert.deepEqual([missing.exitCode, /There is no sandbox none/.test(missing.stderr)], [3, true]);
});
