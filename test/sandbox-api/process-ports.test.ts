// Starts that wait for ports: who may listen where, what happens when nobody does.
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type Server } from "node:net";
import { after, before, test } from "node:test";
import type { ProcessResponse } from "../../src/contract/sandbox-api/process.ts";
import { type Answer, TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
before(async () => {
  sandbox = await TestSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());

/** A port nobody listens on right now. */
async function freePort(): Promise<number> {
  const server = await listen();
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function listen(): Promise<Server> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "0.0.0.0", () => resolve(server));
  });
}

/** A program that listens after a while, and then stays. */
function server(port: number, host = "0.0.0.0", delayMs = 300): string {
  const script = `setTimeout(() => require("net").createServer().listen(${port}, "${host}"), ${delayMs})`;
  return `exec ${process.execPath} -e '${script}; setInterval(() => {}, 1000)'`;
}

async function start(json: object): Promise<Answer> {
  return sandbox.ask("POST", "/process", { json });
}

async function end(identifier: string): Promise<void> {
  await sandbox.ask("DELETE", `/process/${identifier}/kill`);
}

test("the answer comes when every port has a listener, also of a grandchild", async () => {
  const ports = [await freePort(), await freePort()];
  const command = `(${server(ports[0]!)}) & (${server(ports[1]!, "::", 600)}) & wait`;
  const answer = await start({ command, name: "two", waitForPorts: ports, timeout: 30 });
  assert.equal(answer.status, 200, answer.text);
  assert.deepEqual([(answer.json as ProcessResponse).status, (answer.json as ProcessResponse).logs], ["running", null]);
  for (const port of ports) {
    const socket = connect(port, "127.0.0.1");
    await once(socket, "connect");
    socket.destroy();
  }
  await end("two");
});

test("a listener for the sandbox alone does not count: 422 after the timeout, and the process goes on", async () => {
  const port = await freePort();
  const answer = await start({
    command: server(port, "127.0.0.1", 0),
    name: "local",
    waitForPorts: [port],
    timeout: 2,
  });
  assert.deepEqual([answer.status, answer.json], [422, { error: "process timed out after 2 seconds" }]);
  assert.equal(((await sandbox.ask("GET", "/process/local")).json as ProcessResponse).status, "running");
  await end("local");
});

test("a listener of somebody else does not count", async () => {
  const other = await listen();
  const { port } = other.address() as { port: number };
  const answer = await start({ command: "sleep 60", name: "idle", waitForPorts: [port], timeout: 1 });
  assert.equal(answer.status, 422);
  await end("idle");
  await new Promise((resolve) => other.close(resolve));
});

test("a process that ends before it listens is told at once", async () => {
  const port = await freePort();
  const answer = await start({ command: "exit 3", name: "early", waitForPorts: [port] });
  assert.equal(answer.status, 422);
  assert.match(answer.text, new RegExp(`'early' ended before it listened on port ${port}: It ended with code 3`));
  const waited = await start({ command: "exit 4", waitForPorts: [port], waitForCompletion: true });
  assert.deepEqual([waited.status, (waited.json as ProcessResponse).exitCode], [200, 4]);
});

test("the wait goes on over restarts of the process", async () => {
  const port = await freePort();
  const mark = `${sandbox.workingDir}/second`;
  const command = `if [ -e ${mark} ]; then ${server(port, "0.0.0.0", 0)}; else touch ${mark}; exit 1; fi`;
  const answer = await start({ command, name: "again", waitForPorts: [port], restartOnFailure: true, maxRestarts: 2 });
  assert.equal(answer.status, 200, answer.text);
  assert.equal((answer.json as ProcessResponse).restartCount, 1);
  await end("again");
});

test("a client that leaves does not keep the looking going", async () => {
  const port = await freePort();
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ command: "sleep 60", name: "left", waitForPorts: [port] });
  const response = sandbox.send({ method: "POST", path: "/process", headers, signal: AbortSignal.timeout(500) }, body);
  await assert.rejects(response);
  await end("left");
});
