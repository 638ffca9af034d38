// `exec` and `run` over HTTP: output as it comes, exit codes passed on, nothing left running, and honest failures.
import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { Writable } from "node:stream";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { cli } from "./run-cli.ts";
import { type Answer, json, sandbox, sandboxPath, serveWire } from "./wire-server.ts";

const dev = sandboxPath("dev");
const getDev = { "GET /v0/sandboxes/dev": json(200, sandbox("dev")) };

function line(type: string, data: unknown, more: object = {}): string {
  return `${JSON.stringify({ type, data: typeof data === "string" ? data : JSON.stringify(data), ...more })}\n`;
}

function ended(exitCode: number | null, status = "completed"): string {
  return line("result", { name: "p", status, exitCode });
}

function streams(...lines: string[]): Answer {
  return (_, response) => {
    response.writeHead(200, { "content-type": "application/x-ndjson" });
    response.end(lines.join(""));
  };
}

test("exec sends the quoted command and passes on output and exit code", async () => {
  const binary = Buffer.from([0xff, 0, 0x80]);
  await using server = await serveWire({
    ...getDev,
    [`POST ${dev}/process`]: streams(
      line("stdout", "out "),
      line("keepalive", ""),
      line("stderr", "err"),
      line("stdout", "��", { base64: binary.toString("base64") }),
      ended(7, "failed"),
    ),
  });
  const args = ["exec", "dev", "--cwd", "/app", "--env", "A=b c", "--", "sh", "-c", "echo '$x'; exit 7", "--", "-n"];
  const run = await cli(args, { env: server.env });
  assert.equal(run.exitCode, 7);
  assert.deepEqual(run.stdoutBytes, Buffer.concat([Buffer.from("out "), binary]));
  assert.equal(run.stderr, "err");
  const { headers, body } = server.asked[1]!;
  assert.equal(headers.accept, "text/event-stream");
  const { name, ...request } = JSON.parse(body.toString());
  assert.match(name, /^cli-[a-z0-9]{16}$/);
  assert.deepEqual(request, {
    command: `sh -c 'echo '\\''$x'\\''; exit 7' -- -n`,
    workingDir: "/app",
    env: { A: "b c" },
    waitForCompletion: true,
  });
});

test("exec asks for the sandbox at the address the platform was reached by, when the platform names its own loopback", async () => {
  const url = `http://127.0.0.1:1${dev}`;
  const found = sandbox("dev");
  await using server = await serveWire({
    "GET /v0/sandboxes/dev": json(200, { ...found, metadata: { ...found.metadata, url } }),
    [`POST ${dev}/process`]: streams(ended(0)),
  });
  assert.equal((await cli(["exec", "dev", "--", "true"], { env: server.env })).exitCode, 0);
});

test("exec --json gives one document, with bytes that are no text as base64", async () => {
  const bytes = Buffer.from([0xff, 10]);
  await using server = await serveWire({
    ...getDev,
    [`POST ${dev}/process`]: streams(
      line("stdout", "x", { base64: bytes.toString("base64") }),
      line("stderr", "e"),
      ended(0),
    ),
  });
  const run = await cli(["exec", "dev", "--json", "--", "true"], { env: server.env });
  assert.deepEqual(JSON.parse(run.stdout), {
    sandbox: "dev",
    exitCode: 0,
    stdout: { text: "\ufffd\n", base64: bytes.toString("base64"), bytes: 2, truncated: false },
    stderr: { text: "e", bytes: 1, truncated: false },
  });
});

const failures: [string, Record<string, Answer>, RegExp][] = [
  ["an unknown sandbox", {}, /There is no sandbox dev/],
  [
    "a missing directory",
    { ...getDev, [`POST ${dev}/process`]: json(422, { error: "no folder /nope" }) },
    /no folder \/nope/,
  ],
  [
    "a stream that breaks",
    { ...getDev, [`POST ${dev}/process`]: streams(line("stdout", "x")) },
    /broke before the process ended/,
  ],
  [
    "an end nobody observed",
    { ...getDev, [`POST ${dev}/process`]: streams(ended(null, "killed")) },
    /without an exit code/,
  ],
  [
    "a refused key",
    { "GET /v0/sandboxes/dev": json(401, { error: "unauthenticated", code: 401, message: "bad key" }) },
    /bad key/,
  ],
  [
    "a sandbox that is not there yet",
    { "GET /v0/sandboxes/dev": json(200, sandbox("dev", { status: "DELETING" })) },
    /is DELETING/,
  ],
];
for (const [what, routes, message] of failures) {
  test(`exec ends with 125 for ${what}, whatever the command's own codes mean`, async () => {
    await using server = await serveWire(routes);
    const run = await cli(["exec", "dev", "--", "true"], { env: server.env });
    assert.equal(run.exitCode, 125);
    assert.match(run.stderr, message);
  });
}

test("a command is never started twice", async () => {
  await using server = await serveWire({
    ...getDev,
    [`POST ${dev}/process`]: (_, response) => response.socket?.destroy(),
  });
  const run = await cli(["exec", "dev", "--", "true"], { env: server.env });
  assert.equal(run.exitCode, 125);
  assert.equal(server.asked.filter(({ method }) => method === "POST").length, 1);
});

/** A process that runs until the test ends it; requests to stop it find nothing, as in the moment before it has started. */
async function serveStoppable() {
  let running: ServerResponse | undefined;
  let path = "";
  const server = await serveWire({
    ...getDev,
    [`POST ${dev}/process`]: ({ body }, response) => {
      path = `${dev}/process/${JSON.parse(body.toString()).name}`;
      running = response;
      response.writeHead(200, { "content-type": "application/x-ndjson" });
      response.write(line("stdout", "started "));
    },
  });
  const end = (exitCode: number): void => void running?.end(line("stdout", "bye") + ended(exitCode, "stopped"));
  return { server, end, path: () => path };
}

test("Ctrl-C stops the command in the sandbox, keeps its last words and ends with 130", async () => {
  const stoppable = await serveStoppable();
  await using server = stoppable.server;
  const run = await cli(["exec", "dev", "--", "sleep", "9"], {
    env: server.env,
    async during({ stdout, signal }) {
      await eventually(() => assert.equal(stdout(), "started "));
      signal("SIGINT");
      await eventually(() =>
        assert.ok(server.asked.some(({ method, url }) => method === "DELETE" && url === stoppable.path())),
      );
      stoppable.end(143);
    },
  });
  assert.deepEqual([run.exitCode, run.stdout], [130, "started bye"]);
});

test("a command that ignores the polite way is killed, and SIGTERM ends with 143", async () => {
  const stoppable = await serveStoppable();
  await using server = stoppable.server;
  const run = await cli(["exec", "dev", "--", "sleep", "9"], {
    env: server.env,
    async during({ stdout, signal }) {
      await eventually(() => assert.equal(stdout(), "started "));
      signal("SIGTERM");
      await eventually(() => assert.ok(server.asked.some(({ url }) => url === `${stoppable.path()}/kill`)));
      stoppable.end(137);
    },
  });
  assert.equal(run.exitCode, 143);
});

test("--timeout stops the command and ends with 124", async () => {
  const stoppable = await serveStoppable();
  await using server = stoppable.server;
  const run = await cli(["exec", "dev", "--timeout", "1s", "--", "sleep", "9"], {
    env: server.env,
    async during({ stdout }) {
      await eventually(() => assert.equal(stdout(), "started "));
      await eventually(() => assert.ok(server.asked.some(({ method }) => method === "DELETE")));
      stoppable.end(143);
    },
  });
  assert.equal(run.exitCode, 124);
  assert.match(run.stderr, /stopped after 1\.0 s/);
});

test("a reader that goes away stops the command and ends with 141", async () => {
  const stoppable = await serveStoppable();
  await using server = stoppable.server;
  const stdout = new Writable({
    write: (_chunk, _encoding, done) => done(Object.assign(new Error("closed"), { code: "EPIPE" })),
  });
  stdout.on("error", () => undefined);
  const run = await cli(["exec", "dev", "--", "yes"], {
    env: server.env,
    stdout,
    async during() {
      await eventually(() => assert.ok(server.asked.some(({ method }) => method === "DELETE")));
      stoppable.end(143);
    },
  });
  assert.deepEqual([run.exitCode, run.stderr], [141, ""]);
});

/** Sandboxes that are made under any name, with one process answer. */
function anySandbox(process: Answer): { routes: Record<string, Answer>; deleted: string[] } {
  const deleted: string[] = [];
  const routes = new Proxy<Record<string, Answer>>(
    {
      "POST /v0/sandboxes": ({ body }, response) =>
        json(200, sandbox(JSON.parse(body.toString()).metadata.name))({} as never, response),
    },
    {
      get(target, key: string) {
        if (/^POST \/run\/main\/sandboxes\/run-[a-z0-9]+\/process$/.test(key)) return process;
        const name = /^DELETE \/v0\/sandboxes\/(run-[a-z0-9]+)$/.exec(key)?.[1];
        if (name === undefined) return target[key];
        deleted.push(name);
        return json(200, sandbox(name, { status: "DELETING" }));
      },
    },
  );
  return { routes, deleted };
}

test("run makes a sandbox, passes on the exit code and deletes the sandbox", async () => {
  const { routes, deleted } = anySandbox(streams(line("stdout", "hi"), ended(3, "failed")));
  await using server = await serveWire(routes);
  const run = await cli(["run", "--memory", "512", "--", "false"], { env: server.env });
  assert.deepEqual([run.exitCode, run.stdout], [3, "hi"]);
  const { metadata, spec } = JSON.parse(server.asked[0]!.body.toString());
  assert.deepEqual([deleted, spec.runtime.memory], [[metadata.name], 512]);
});

test("run deletes the sandbox when the command cannot be started", async () => {
  const { routes, deleted } = anySandbox(json(500, { error: "broken" }));
  await using server = await serveWire(routes);
  const run = await cli(["run", "--", "true"], { env: server.env });
  assert.equal(run.exitCode, 125);
  assert.match(run.stderr, /broken/);
  assert.equal(deleted.length, 1);
});

test("run deletes the sandbox when Ctrl-C comes while it is being made", async () => {
  const { routes, deleted } = anySandbox(streams(ended(0)));
  const create = routes["POST /v0/sandboxes"]!;
  let release: (() => void) | undefined;
  const held: Answer = (asked, response) =>
    new Promise<void>((resolve) => {
      release = () => resolve();
    }).then(() => create(asked, response));
  await using server = await serveWire(
    new Proxy(routes, { get: (target, key: string) => (key === "POST /v0/sandboxes" ? held : target[key]) }),
  );
  const run = await cli(["run", "--", "true"], {
    env: server.env,
    async during({ signal }) {
      await eventually(() => assert.ok(release !== undefined));
      signal("SIGINT");
      release?.();
    },
  });
  assert.equal(run.exitCode, 130);
  assert.equal(deleted.length, 1);
  assert.equal(server.asked.filter(({ url }) => url.endsWith("/process")).length, 0);
});

test("run --keep leaves the sandbox and names it", async () => {
  const { routes, deleted } = anySandbox(streams(ended(0)));
  await using server = await serveWire(routes);
  const run = await cli(["run", "--keep", "--", "true"], { env: server.env });
  assert.match(run.stderr, /^run-[a-z0-9]{12}\n$/);
  assert.deepEqual(deleted, []);
});
