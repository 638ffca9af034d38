// The `users` and `audit` commands, against a platform's operator socket.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { openOperatorSocket } from "../../src/dev/operator-socket.ts";
import { type Server, startServer } from "../control-plane/harness.ts";
import { type CliRun, cli } from "./run-cli.ts";

type Run = (args: readonly string[], stdin?: string) => Promise<CliRun>;

async function withOperator(work: (server: Server, run: Run) => Promise<void>): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), "catnap-cli-users-"));
  try {
    await using server = await startServer();
    await using _socket = await openOperatorSocket(dataDir, (request, response) =>
      server.controlPlane.operatorApp.routing(request, response),
    );
    await work(server, (args, stdin) =>
      cli(args, { env: { CATNAP_DATA_DIR: dataDir }, ...(stdin !== undefined && { stdin }) }),
    );
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
}

test("a person is added with a password from standard input, given a key, disabled, enabled and removed", async () => {
  await withOperator(async (server, run) => {
    const { users } = server.controlPlane.identity;
    const secret = "correct horse battery";
    const add = ["users", "add", "Mia@Example.com", "--name", "mia", "--workspace", "main", "--role", "admin"];
    const added = await run([...add, "--password"], `${secret}\n`);
    assert.deepEqual([added.exitCode, added.stdout, added.stderr], [0, "mia@example.com is added\n", ""]);
    assert.equal((await run(add)).exitCode, 1);
    assert.equal((await users.verifyPassword("MIA@example.com ", secret))?.name, "mia");
    assert.equal(await users.verifyPassword("mia@example.com", `${secret}x`), undefined);
    assert.match(
      (await run(["users", "list"])).stdout,
      /^NAME .*\nadmin +no +enabled\nmia +mia@example.com +yes +enabled\n$/,
    );
    const key = (await run(["users", "create-key", "mia", "--expires-in", "1d"])).stdout.trim();
    assert.match(key, /^ck_[a-z0-9]{50}$/);
    assert.equal((await server.call("GET", "/v0/users", { key })).status, 200);
    assert.equal((await run(["users", "disable", "mia"])).exitCode, 0);
    assert.equal((await server.call("GET", "/v0/users", { key })).status, 401);
    await assert.rejects(async () => server.controlPlane.directory.authorize(key, "main"), { code: "unauthenticated" });
    assert.equal(await users.verifyPassword("mia@example.com", secret), undefined);
    assert.equal((await run(["users", "enable", "mia@example.com"])).exitCode, 0);
    assert.equal((await server.call("GET", "/v0/users", { key })).status, 200);
    const other = "another long password";
    assert.equal((await run(["users", "set-password", "mia"], `${other}\r\nrest`)).exitCode, 0);
    assert.equal(await users.verifyPassword("mia@example.com", secret), undefined);
    assert.equal((await users.verifyPassword("mia@example.com", other))?.name, "mia");
    assert.equal((await run(["users", "remove", "mia"])).exitCode, 0);
    assert.equal((await server.call("GET", "/v0/users", { key })).status, 401);
    assert.equal((await run(["users", "remove", "mia"])).exitCode, 3);
    const everything = Buffer.concat([await server.stored(), Buffer.from(server.logged())]);
    for (const text of [secret, other, key]) assert.ok(!everything.includes(text));
  });
});

test("the first administrator gets an address and a password, and can sign in", async () => {
  await withOperator(async (server, run) => {
    const { users } = server.controlPlane.identity;
    assert.deepEqual(
      (await run(["users", "set-email", "admin", "Ada@Example.com"])).stdout,
      "admin signs in as ada@example.com\n",
    );
    assert.equal((await run(["users", "set-password", "admin"], "correct horse battery\n")).exitCode, 0);
    assert.equal((await users.verifyPassword("ada@example.com", "correct horse battery"))?.name, "admin");
    assert.equal((await run(["users", "set-email", "ada@example.com", "a@b.c"])).exitCode, 0);
    assert.equal((await run(["users", "set-email", "a@b.c", "a@b.c"])).exitCode, 0);
    assert.equal(await users.verifyPassword("ada@example.com", "correct horse battery"), undefined);
    assert.equal((await run(["users", "add", "mia@example.com"])).exitCode, 0);
    const taken = await run(["users", "set-email", "admin", "MIA@example.com"]);
    assert.notEqual(taken.exitCode, 0);
    assert.match(taken.stderr, /There is a user with this email already/);
    assert.notEqual((await run(["users", "set-email", "admin", "no-address"])).exitCode, 0);
    assert.equal((await run(["users", "set-email", "nobody", "b@b.c"])).exitCode, 3);
  });
});

test("what cannot be is said: short passwords, no password, unknown people and workspaces, the last administrator", async () => {
  await withOperator(async (_server, run) => {
    const short = await run(["users", "add", "a@b.c", "--password"], "short\n");
    assert.match(short.stderr, /12 to 256 characters/);
    assert.equal((await run(["users", "set-password", "admin"], "")).exitCode, 2);
    assert.equal((await run(["users", "set-password", "admin"], "x".repeat(5_000))).exitCode, 2);
    assert.equal((await run(["users", "set-password", "nobody"], "long enough for it\n")).exitCode, 3);
    assert.equal((await run(["users", "add", "a@b.c", "--workspace", "nowhere"])).exitCode, 3);
    assert.equal((await run(["users", "add", "a@b.c", "--role", "owner"])).exitCode, 2);
    assert.notEqual((await run(["users", "add", "no-address"])).exitCode, 0);
    assert.match((await run(["users", "remove", "admin"])).stderr, /last administrator of main/);
    assert.equal((await run(["users", "add", "a@b.c"])).exitCode, 0);
    assert.equal((await run(["users", "create-key", "a@b.c"])).exitCode, 3);
  });
});

test("the audit log shows the operator's changes and everyone else's", async () => {
  await withOperator(async (server, run) => {
    await server.create({ name: "box" });
    await run(["users", "add", "a@b.c"]);
    const { stdout, exitCode } = await run(["audit"]);
    assert.equal(exitCode, 0);
    assert.match(stdout, /operator +POST \/users +a@b.c +200/);
    assert.match(stdout, /admin +main +POST \/sandboxes +box +200 +127.0.0.1/);
    const page = JSON.parse((await run(["audit", "--json", "--limit", "1"])).stdout);
    assert.equal(page.data.length, 1);
    const next = JSON.parse((await run(["audit", "--json", "--cursor", page.meta.nextCursor])).stdout);
    assert.equal(next.data[0].resource, "box");
    assert.equal((await run(["audit", "--limit", "no"])).exitCode, 2);
    assert.equal((await run(["audit", "--since", "now"])).exitCode, 1);
  });
});
