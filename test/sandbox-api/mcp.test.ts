// The Model Context Protocol: a client of the protocol's own library uses every tool.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
let client: Client;
before(async () => {
  sandbox = await TestSandbox.start();
  client = await connect();
});
after(async () => {
  await client.close();
  await sandbox[Symbol.asyncDispose]();
});

async function connect(): Promise<Client> {
  const made = new Client({ name: "test", version: "1" });
  await made.connect(new StreamableHTTPClientTransport(new URL(`${sandbox.url}/mcp`)));
  return made;
}

type Outcome = { isError: boolean; text: string; data: Record<string, unknown> };

async function call(name: string, args: Record<string, unknown> = {}, by = client): Promise<Outcome> {
  const { isError, content, structuredContent } = await by.callTool({ name, arguments: args });
  const [first] = content as { type: string; text: string }[];
  return { isError: isError === true, text: first!.text, data: (structuredContent ?? {}) as Record<string, unknown> };
}

async function expectError(name: string, args: Record<string, unknown>, message: RegExp): Promise<void> {
  const { isError, text } = await call(name, args);
  assert.ok(isError, `${name} did not fail: ${text}`);
  assert.match(text, message);
}

test("the server says who it is and lists its tools with strict inputs", async () => {
  assert.deepEqual(client.getServerVersion(), { name: "Sandbox API Server", version: "1.0.0" });
  const { tools } = await client.listTools();
  assert.deepEqual(
    tools.map(({ name }) => name),
    [
      "processesList",
      "processExecute",
      "processGet",
      "processGetLogs",
      "processStop",
      "processKill",
      "fsGetWorkingDirectory",
      "fsListDirectory",
      "fsReadFile",
      "fsWriteFile",
      "fsEditFile",
      "fsDeleteFileOrDirectory",
      "codegenFileSearch",
      "codegenCodebaseSearch",
      "codegenGrepSearch",
      "codegenReadFileRange",
      "codegenReapply",
      "codegenListDir",
      "codegenParallelApply",
    ],
  );
  for (const tool of tools) {
    assert.equal(tool.inputSchema.additionalProperties, false, tool.name);
    assert.equal(tool.outputSchema?.type, "object", tool.name);
    assert.ok(tool.description);
  }
});

test("a command runs, is waited for, and its processes are those of the HTTP API", async () => {
  const ran = await call("processExecute", {
    command: "pwd; echo $A; exit 3",
    env: { A: "b" },
    waitForCompletion: true,
  });
  assert.deepEqual([ran.data.status, ran.data.exitCode, ran.data.logs], ["failed", 3, "/\nb\n"]);
  assert.equal(ran.data.pollRequired, false);
  assert.deepEqual(JSON.parse(ran.text), ran.data);
  const seen = await sandbox.ask("GET", `/process/${ran.data.pid as string}`);
  assert.equal((seen.json as { name: string }).name, ran.data.name);
  const got = await call("processGet", { identifier: ran.data.name });
  assert.deepEqual([got.data.pid, got.data.stdout], [ran.data.pid, "/\nb\n"]);
  assert.deepEqual((await call("processGetLogs", { identifier: ran.data.pid })).data, { logs: "/\nb\n" });
  const { processes } = (await call("processesList")).data as { processes: { pid: string }[] };
  assert.ok(processes.some(({ pid }) => pid === ran.data.pid));
});

test("a wait that ends first says to poll, and the process runs on until it is stopped or killed", async () => {
  for (const [tool, status] of [
    ["processStop", "stopped"],
    ["processKill", "killed"],
  ] as const) {
    const ran = await call("processExecute", {
      command: "echo up; sleep 60",
      waitForCompletion: true,
      timeout: 1,
      name: tool,
    });
    assert.deepEqual([ran.isError, ran.data.status, ran.data.pollRequired], [false, "running", true]);
    assert.match(ran.data.message as string, new RegExp(ran.data.pid as string));
    assert.deepEqual((await call(tool, { identifier: tool })).data, { status });
    await expectError(tool, { identifier: `no-${tool}` }, /was not found/);
  }
});

test("what cannot run is an error of the tool", async () => {
  await expectError("processExecute", { command: "" }, /command/);
  await expectError("processExecute", { command: "true", workingDir: "/missing" }, /\/missing.* does not exist/);
  await expectError("processExecute", { command: "true", colour: "red" }, /additional|colour/i);
  await expectError("processExecute", { command: ["true"] }, /^argument command must be a string$/);
  await expectError("processGet", { identifier: "nobody" }, /nobody/);
});

test("files are written, read, listed, edited and deleted", async () => {
  const { workingDir } = sandbox;
  assert.deepEqual((await call("fsGetWorkingDirectory")).data, { path: workingDir });
  const path = join(workingDir, "notes/a.txt");
  assert.equal(
    (await call("fsWriteFile", { path: "notes/a.txt", content: "one two two ü", permissions: "0600" })).data.path,
    path,
  );
  assert.equal(statSync(path).mode & 0o777, 0o600);
  const read = await call("fsReadFile", { path: "notes/a.txt" });
  assert.deepEqual([read.data.content, read.data.size, read.data.permissions], ["one two two ü", 14, "0600"]);
  const { directory } = (await call("fsListDirectory", { path: "notes" })).data as {
    directory: { files: { name: string }[] };
  };
  assert.deepEqual(
    directory.files.map(({ name }) => name),
    ["a.txt"],
  );
  const edited = await call("fsEditFile", { path, oldString: "two", newString: "three", replaceAll: true });
  assert.deepEqual(edited.data, { path, occurrencesReplaced: 2 });
  assert.equal(readFileSync(path, "utf8"), "one three three ü");
  assert.equal(statSync(path).mode & 0o777, 0o600, "an edit keeps the permissions");
  await call("fsWriteFile", { path: "notes/sub", isDirectory: true });
  await call("fsWriteFile", { path: "notes/sub", isDirectory: true });
  await expectError("fsDeleteFileOrDirectory", { path: "notes" }, /not empty|ENOTEMPTY/i);
  await expectError(
    "fsDeleteFileOrDirectory",
    { path: "notes", isDirectory: false, recursive: true },
    /is a directory/,
  );
  assert.equal((await call("fsDeleteFileOrDirectory", { path: "notes", recursive: true })).isError, false);
  await expectError("fsReadFile", { path: "notes/a.txt" }, /notes/);
});

test("an edit is refused unless it says exactly what to change", async () => {
  const path = join(sandbox.workingDir, "edit.txt");
  const original = Buffer.from([0x61, 0xff, 0x62, 0x0a, 0x62, 0x0a]);
  writeFileSync(path, original);
  await expectError("fsEditFile", { path, oldString: "zzz", newString: "y" }, /is not in/);
  await expectError("fsEditFile", { path, oldString: "b\n", newString: "y" }, /2 times/);
  await expectError("fsEditFile", { path, oldString: "b", newString: "b" }, /the same/);
  await expectError("fsEditFile", { path, oldString: "", newString: "b" }, /empty/);
  await expectError("fsEditFile", { path: "missing.txt", oldString: "a", newString: "b" }, /missing/);
  await expectError("fsEditFile", { path: sandbox.workingDir, oldString: "a", newString: "b" }, /./);
  assert.deepEqual(readFileSync(path), original);
  assert.equal((await call("fsEditFile", { path, oldString: "a", newString: "$&" })).isError, false);
  assert.deepEqual(readFileSync(path), Buffer.concat([Buffer.from("$&"), original.subarray(1)]), "other bytes stay");
});

test("a file above the limit is refused whole and read in parts", async () => {
  const path = join(sandbox.workingDir, "large.txt");
  const limit = 2 * 1024 * 1024;
  writeFileSync(path, "x".repeat(limit));
  assert.equal(((await call("fsReadFile", { path })).data.content as string).length, limit);
  writeFileSync(path, `${"line\n".repeat(600_000)}last`);
  await expectError("fsReadFile", { path }, /codegenReadFileRange/);
  await expectError("fsEditFile", { path, oldString: "last", newString: "end" }, /more than/);
  const range = (first: number, last: number) =>
    call("codegenReadFileRange", { targetFile: path, startLineOneIndexed: first, endLineOneIndexedInclusive: last });
  assert.equal((await range(1, 2)).data.content, "line\nline");
  assert.equal((await range(600_000, 600_100)).data.content, "line\nlast");
  assert.match((await range(700_000, 700_001)).text, /has only 600001 lines/);
  assert.match((await range(2, 1)).text, /before/);
  assert.equal((await range(1, 250)).isError, false);
  assert.match((await range(1, 251)).text, /250/);
  assert.match((await range(0, 1)).text, /startLineOneIndexed/);
});

test("code is found by name and by contents", async () => {
  const root = join(sandbox.workingDir, "code");
  mkdirSync(join(root, "src"), { recursive: true });
  mkdirSync(join(root, "node_modules"), { recursive: true });
  writeFileSync(join(root, "src/parser.ts"), "const answer = 42;\nfunction parse() {}\n");
  writeFileSync(join(root, "src/parser.py"), "answer = 42\n");
  writeFileSync(join(root, "node_modules/parser.ts"), "const answer = 42;\n");
  const named = await call("codegenFileSearch", { query: "parserts", directory: "code" });
  assert.deepEqual(named.data.matches, [join(root, "src/parser.ts")]);
  const grep = async (args: object) => (await call("codegenGrepSearch", { ...args })).data.results;
  assert.equal(
    await grep({ query: "ANSWER = \\d+", includePattern: "*.ts" }),
    "code/src/parser.ts:1:7:const answer = 42;\n",
  );
  assert.equal(await grep({ query: "ANSWER", caseSensitive: true }), "Nothing matches.");
  assert.equal(await grep({ query: "answer", excludePattern: "*.ts" }), "code/src/parser.py:1:1:answer = 42\n");
  await expectError("codegenGrepSearch", { query: "(" }, /search failed: error: unclosed group/);
  await expectError("codegenGrepSearch", { query: "a\0" }, /^query contains a NUL byte$/);
  const { directory } = (await call("codegenListDir", { relativeWorkspacePath: "code" })).data as {
    directory: { subdirectories: object[] };
  };
  assert.equal(directory.subdirectories.length, 2);
  for (const [name, args] of [
    ["codegenCodebaseSearch", { query: "x" }],
    ["codegenReapply", { targetFile: "x" }],
    ["codegenParallelApply", { editPlan: "x", editRegions: [] }],
  ] as const) {
    await expectError(name, args, /RELACE_API_KEY or MORPH_API_KEY/);
  }
});

test("many clients at once each get their own answers", async () => {
  const clients = await Promise.all(Array.from({ length: 16 }, connect));
  const outcomes = await Promise.all(
    clients.flatMap((by, index) =>
      Array.from({ length: 4 }, (_, turn) =>
        call("processExecute", { command: `echo ${index}-${turn}`, waitForCompletion: true }, by),
      ),
    ),
  );
  for (const [at, { data }] of outcomes.entries()) assert.equal(data.logs, `${Math.floor(at / 4)}-${at % 4}\n`);
  await Promise.all(clients.map((by) => by.close()));
});
