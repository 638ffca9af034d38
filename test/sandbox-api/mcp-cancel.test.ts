// A tool call that is cancelled stops what it runs inside; a connection that merely breaks does not end a command.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { linkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { eventually } from "../eventually.ts";
import { TestSandbox } from "./harness.ts";

const waiting = { command: "sleep 1000", name: "waiting", waitForCompletion: true };

async function connect(sandbox: TestSandbox, pin?: string): Promise<Client & AsyncDisposable> {
  const options = pin === undefined ? {} : { versionNegotiation: { mode: { pin } } };
  const client = new Client({ name: "test", version: "1" }, options);
  await client.connect(new StreamableHTTPClientTransport(new URL(`${sandbox.url}/mcp`)));
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() });
}

function runs(sandbox: TestSandbox, program: string): boolean {
  const { stdout } = spawnSync("ps", ["--ppid", String(sandbox.guestPid), "-o", "comm="], { encoding: "utf8" });
  return stdout.split("\n").includes(program);
}

async function statusOf(sandbox: TestSandbox): Promise<string | undefined> {
  const { json } = await sandbox.ask("GET", "/process/waiting");
  return (json as { status?: string } | undefined)?.status;
}

test("a cancelled search ends the program that searches", async () => {
  await using sandbox = await TestSandbox.start();
  const large = join(sandbox.workingDir, "large");
  writeFileSync(large, "ordinary text\n".repeat(2_000_000));
  for (let index = 0; index < 2_000; index++) linkSync(large, `${large}${index}`);
  await using client = await connect(sandbox, "2026-07-28");
  const cancel = new AbortController();
  const call = { name: "codegenGrepSearch", arguments: { query: "need+le" } };
  const calling = client.callTool(call, { signal: cancel.signal }).catch((error: unknown) => error);
  await eventually(() => assert.ok(runs(sandbox, "rg")));
  cancel.abort("not wanted any more");
  await calling;
  await eventually(() => assert.ok(!runs(sandbox, "rg")));
});

test("a cancelled command is stopped", async () => {
  await using sandbox = await TestSandbox.start();
  await using client = await connect(sandbox, "2026-07-28");
  const cancel = new AbortController();
  const call = { name: "processExecute", arguments: waiting };
  const calling = client.callTool(call, { signal: cancel.signal }).catch((error: unknown) => error);
  await eventually(async () => assert.equal(await statusOf(sandbox), "running"));
  cancel.abort("not wanted any more");
  await calling;
  await eventually(async () => assert.equal(await statusOf(sandbox), "stopped"));
});

test("a command goes on when a client of an earlier revision is gone", async () => {
  await using sandbox = await TestSandbox.start();
  {
    await using client = await connect(sandbox);
    const calling = client.callTool({ name: "processExecute", arguments: waiting }).catch((error: unknown) => error);
    await eventually(async () => assert.equal(await statusOf(sandbox), "running"));
    await client.close();
    await calling;
  }
  assert.equal(await statusOf(sandbox), "running");
  assert.equal((await sandbox.ask("DELETE", "/process/waiting/kill")).status, 200);
});
