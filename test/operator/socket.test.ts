// The operator socket: who can open it, what it answers, and that it is there again after every kind of end.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { openOperatorSocket } from "../../src/dev/operator-socket.ts";
import { cli } from "../cli/run-cli.ts";
import { startServer } from "../control-plane/harness.ts";

const run = promisify(execFile);

/** A data directory whose own path keeps nobody out, as `/var/lib/catnap` is. */
function makeDataDir(): { dir: string; [Symbol.dispose](): void } {
  const dir = mkdtempSync(join(tmpdir(), "catnap-operator-"));
  chmodSync(dir, 0o711);
  return { dir, [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }) };
}

const answerOk = (_: unknown, response: { end(text: string): void }): void => response.end("{}");

test("only the platform's user can enter the directory of the socket, whatever it was before", async () => {
  using data = makeDataDir();
  mkdirSync(join(data.dir, "operator"), { mode: 0o777 });
  chmodSync(join(data.dir, "operator"), 0o777);
  await using _socket = await openOperatorSocket(data.dir, answerOk);
  assert.equal(statSync(join(data.dir, "operator")).mode & 0o777, 0o700);
  assert.equal(statSync(join(data.dir, "operator", "operator.sock")).mode & 0o777, 0o600);
});

test("another user is refused by the kernel", { skip: process.getuid?.() !== 0 && "needs root" }, async () => {
  using data = makeDataDir();
  await using _socket = await openOperatorSocket(data.dir, answerOk);
  const path = join(data.dir, "operator", "operator.sock");
  const attempt = `require("node:net").connect(process.argv[1])
    .on("connect", () => { console.log("connected"); process.exit(); })
    .on("error", (error) => console.log(error.code));`;
  const asOther = `process.setgroups([]); process.setgid(65534); process.setuid(65534); ${attempt}`;
  assert.equal((await run(process.execPath, ["-e", asOther, path])).stdout, "EACCES\n");
  assert.equal((await run(process.execPath, ["-e", attempt, path])).stdout, "connected\n");
});

test("a directory that is a link, or somebody else's, is refused", async () => {
  using data = makeDataDir();
  using other = makeDataDir();
  symlinkSync(other.dir, join(data.dir, "operator"));
  await assert.rejects(openOperatorSocket(data.dir, answerOk));
  assert.equal(existsSync(join(other.dir, "operator.sock")), false);
});

test("a socket left behind is replaced, and closing leaves none", async () => {
  using data = makeDataDir();
  const path = join(data.dir, "operator", "operator.sock");
  mkdirSync(join(data.dir, "operator"));
  // What a killed process leaves: a socket nobody listens on.
  const holder = `require("node:net").createServer().listen(process.argv[1], () => process.kill(process.pid, "SIGKILL"))`;
  await assert.rejects(run(process.execPath, ["-e", holder, path]), { signal: "SIGKILL" });
  assert.equal(existsSync(path), true);
  const stale = await cli(["keys", "show", "--data-dir", data.dir]);
  assert.deepEqual([stale.exitCode, stale.stderr.split("\n")[0]], [5, `catnap: No platform runs on ${data.dir}.`]);
  {
    await using _second = await openOperatorSocket(data.dir, (_, response) =>
      response.end('{"keyId":"k","previousKeyIds":[],"source":"file"}'),
    );
    assert.equal((await cli(["keys", "show", "--data-dir", data.dir])).stdout, "sealing key k (from the key file)\n");
  }
  assert.equal(existsSync(path), false);
});

test("paths longer than an address of a socket work", async () => {
  using data = makeDataDir();
  const dataDir = join(data.dir, "a".repeat(120), "b".repeat(120));
  mkdirSync(dataDir, { recursive: true });
  await using server = await startServer();
  await using _socket = await openOperatorSocket(dataDir, (request, response) =>
    server.controlPlane.operatorApp.routing(request, response),
  );
  const shown = await cli(["keys", "show", "--json"], { env: { CATNAP_DATA_DIR: dataDir } });
  assert.deepEqual([shown.exitCode, shown.stderr], [0, ""]);
  assert.match(JSON.parse(shown.stdout).keyId, /^[\w-]{16}$/);
});

test("the command says that no platform runs, and that only its user may", async () => {
  using data = makeDataDir();
  const none = await cli(["keys", "show"], { env: { CATNAP_DATA_DIR: data.dir } });
  assert.deepEqual([none.exitCode, none.stderr.split("\n")[0]], [5, `catnap: No platform runs on ${data.dir}.`]);
  if (process.getuid?.() !== 0) return;
  await using _socket = await openOperatorSocket(data.dir, answerOk);
  const script = `process.setgroups([]); process.setgid(65534); process.setuid(65534);
    try { require("node:fs").openSync(process.argv[1]); } catch (error) { console.log(error.code); }`;
  const other = await run(process.execPath, ["-e", script, join(data.dir, "operator")]);
  assert.equal(other.stdout, "EACCES\n");
});

test("errors have the platform's shape, and requests are logged as the operator's", async () => {
  await using server = await startServer();
  const missing = await server.operate("GET", "/v0/nothing");
  assert.equal(missing.status, 404);
  assert.deepEqual(Object.keys(missing.body), ["error", "code", "message"]);
  const status = await server.operate("GET", "/v0/seal-key");
  assert.deepEqual([status.status, Object.keys(status.body)], [200, ["keyId", "previousKeyIds", "source"]]);
  const logged = server
    .logged()
    .split("\n")
    .filter((line) => line.includes("/v0/seal-key"));
  assert.equal(JSON.parse(logged[0]!).principal, "operator");
});

test("the public address has none of the operator's operations", async () => {
  await using server = await startServer();
  assert.equal((await server.call("GET", "/v0/seal-key")).status, 404);
});

test("a connection that sends no request is ended, not kept by the stop", async () => {
  using data = makeDataDir();
  const socket = await openOperatorSocket(data.dir, answerOk);
  const client = connect(join(data.dir, "operator", "operator.sock"));
  await new Promise<void>((resolve) => client.once("connect", resolve));
  const closed = new Promise<void>((resolve) => client.once("close", () => resolve()));
  client.on("error", () => undefined);
  await socket[Symbol.asyncDispose]();
  await closed;
});
