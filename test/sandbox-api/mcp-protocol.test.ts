// The Model Context Protocol itself: its revisions, its messages over HTTP, and errors for hostile ones.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { mcpBatchMax, mcpBodyMaxBytes } from "../../src/contract/sandbox-api/mcp.ts";
import { TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
before(async () => {
  sandbox = await TestSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());

/** Sends one message as it stands; clients of the early revisions say no revision. */
async function post(body: string, headers: Record<string, string> = {}) {
  const answer = await sandbox.ask("POST", "/mcp", {
    body,
    headers: { "content-type": "application/json", ...headers },
  });
  return {
    ...answer,
    rpc: answer.json as { id?: unknown; error?: { code: number; message: string }; result?: unknown },
  };
}

const listTools = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });

test("answers are JSON with the headers of every answer, and other methods are refused", async () => {
  const answer = await post(listTools, { accept: "application/json" });
  assert.equal(answer.status, 200);
  assert.match(answer.headers["content-type"]!, /^application\/json/);
  assert.match(String(answer.headers["server-timing"]), /guest;dur=.*total;dur=/);
  assert.equal(answer.headers["access-control-allow-origin"], "*");
  assert.equal(answer.headers["cache-control"], "no-store");
  for (const method of ["GET", "DELETE", "PUT"]) {
    const refused = await sandbox.ask(method, "/mcp");
    assert.deepEqual([refused.status, refused.headers.allow], [405, "POST"]);
  }
  assert.equal((await sandbox.ask("OPTIONS", "/mcp")).status, 204);
});

test("revisions of the protocol are agreed on", async () => {
  const initialize = (protocolVersion: string) =>
    post(
      JSON.stringify({
        jsonrpc: "2.0",
        id: 0,
        method: "initialize",
        params: { protocolVersion, capabilities: {}, clientInfo: { name: "t", version: "1" } },
      }),
    );
  for (const version of ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]) {
    assert.equal(((await initialize(version)).rpc.result as { protocolVersion: string }).protocolVersion, version);
  }
  const { protocolVersion } = (await initialize("1999-01-01")).rpc.result as { protocolVersion: string };
  assert.match(protocolVersion, /^2025-/, "a revision nobody knows is answered with one that is known");
  const refused = await post(listTools, { "mcp-protocol-version": "1999-01-01" });
  assert.equal(refused.status, 400);
  assert.match(refused.rpc.error!.message, /version/i);
});

test("the newest revision is spoken without agreeing first", async () => {
  const modern = new Client({ name: "t", version: "1" }, { versionNegotiation: { mode: { pin: "2026-07-28" } } });
  await modern.connect(new StreamableHTTPClientTransport(new URL(`${sandbox.url}/mcp`)));
  assert.equal((await modern.listTools()).tools.length, 19);
  const args = { command: "echo new", waitForCompletion: true };
  const { structuredContent } = await modern.callTool({ name: "processExecute", arguments: args });
  assert.equal((structuredContent as { logs: string }).logs, "new\n");
  await modern.close();
});

const hostile: [what: string, body: string, status: number, code: number][] = [
  ["nothing", "", 400, -32_700],
  ["no JSON", "{", 400, -32_700],
  ["null", "null", 400, -32_600],
  ["a number", "1", 400, -32_600],
  ["an object that is no message", "{}", 400, -32_600],
  ["an empty array", "[]", 400, -32_600],
  [
    "too many messages",
    `[${Array(mcpBatchMax + 1)
      .fill(listTools)
      .join(",")}]`,
    400,
    -32_600,
  ],
  ["a method nobody has", '{"jsonrpc":"2.0","id":1,"method":"no/such"}', 200, -32_601],
  ["a tool nobody has", '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"__proto__"}}', 200, -32_602],
  ["another version of JSON-RPC", '{"jsonrpc":"1.0","id":1,"method":"tools/list"}', 400, -32_600],
  ["an id that is an object", '{"jsonrpc":"2.0","id":{},"method":"tools/list"}', 400, -32_600],
];
for (const [what, body, status, code] of hostile) {
  test(`${what} is refused as JSON-RPC refuses`, async () => {
    const { status: answered, rpc } = await post(body);
    assert.deepEqual([answered, rpc.error?.code], [status, code]);
  });
}

test("deep, large and badly declared messages are refused, and the server goes on", async () => {
  const deep = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fsReadFile","arguments":{"path":${"[".repeat(200_000)}${"]".repeat(200_000)}}}}`;
  assert.equal((await post(deep)).status < 500, true);
  const large = await post(`"${"x".repeat(mcpBodyMaxBytes)}"`);
  assert.deepEqual([large.status, large.rpc.error?.code], [413, -32_000]);
  const typed = await post(listTools, { "content-type": "text/plain" });
  assert.deepEqual([typed.status, typed.rpc.error?.code], [415, -32_000]);
  assert.equal((await post(listTools)).status, 200);
});

test("several messages in an array are answered in an array, notifications not at all", async () => {
  const cancelled = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}';
  const { json } = await post(`[${listTools},${cancelled},{"jsonrpc":"2.0","id":"b","method":"ping"},${listTools}]`);
  assert.deepEqual(
    (json as { id: unknown }[]).map(({ id }) => id),
    [1, "b", 1],
  );
  const silent = await post(`[${cancelled}]`);
  assert.deepEqual([silent.status, silent.text], [202, ""]);
  assert.deepEqual([(await post(cancelled)).status, (await post(cancelled)).text], [202, ""]);
});
