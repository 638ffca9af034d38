// Writing to the input of processes over HTTP: exact bytes, refusals, back-pressure, writers that come together.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { after, before, test } from "node:test";
import { type ProcessResponse, processInputMaxBytes } from "../../src/contract/sandbox-api/process.ts";
import { eventually } from "../eventually.ts";
import { type Answer, TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
before(async () => {
  sandbox = await TestSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());

async function start(json: object): Promise<ProcessResponse> {
  const answer = await sandbox.ask("POST", "/process", { json: { stdin: true, ...json } });
  assert.equal(answer.status, 200, answer.text);
  return answer.json as ProcessResponse;
}

async function get(identifier: string): Promise<ProcessResponse> {
  return (await sandbox.ask("GET", `/process/${identifier}`)).json as ProcessResponse;
}

async function ended(identifier: string): Promise<ProcessResponse> {
  return eventually(async () => {
    const found = await get(identifier);
    assert.notEqual(found.status, "running");
    return found;
  });
}

const octets = { "content-type": "application/octet-stream" };

function write(identifier: string, body: Buffer | string | Readable, query = ""): Promise<Answer> {
  return sandbox.ask("POST", `/process/${identifier}/stdin${query}`, { headers: octets, body });
}

test("what is written is read, whatever its type, and the end of the input after it is closed", async () => {
  const { stdin } = await start({ command: "cat", name: "reader" });
  assert.equal(stdin, true);
  const first = await write("reader", "one\n");
  assert.deepEqual([first.status, first.json], [200, { message: "Data written to the process's input", taken: 4 }]);
  const headers = { "content-type": "application/json" };
  const second = await sandbox.ask("POST", "/process/reader/stdin", { headers, body: "{not json" });
  assert.deepEqual([second.status, (second.json as { taken: number }).taken], [200, 13]);
  assert.equal((await sandbox.ask("POST", "/process/reader/stdin", { body: "\n" })).status, 200);
  for (let time = 0; time < 2; time += 1) {
    const closed = await sandbox.ask("DELETE", "/process/reader/stdin");
    assert.deepEqual([closed.status, closed.json], [200, { message: "The process's input is closed" }]);
  }
  const found = await ended("reader");
  assert.deepEqual([found.status, found.stdout], ["completed", "one\n{not json\n"]);
  assert.equal((await sandbox.ask("DELETE", "/process/reader/stdin")).status, 200);
});

test("8 MiB of arbitrary bytes arrive exactly; one byte more is 413, declared or not", async () => {
  await start({ command: "sha256sum", name: "digest" });
  const bytes = randomBytes(processInputMaxBytes);
  const tooMany = Buffer.concat([bytes, Buffer.from("x")]);
  assert.equal((await write("digest", tooMany)).status, 413);
  const written = await write("digest", bytes);
  assert.deepEqual([written.status, (written.json as { taken: number }).taken], [200, bytes.length]);
  await sandbox.ask("DELETE", "/process/digest/stdin");
  const { stdout } = await ended("digest");
  assert.equal(stdout!.slice(0, 64), createHash("sha256").update(bytes).digest("hex"));
  await start({ command: "wc -c", name: "count" });
  const pieces = (function* () {
    for (let at = 0; at < tooMany.length; at += 1_000_000) yield tooMany.subarray(at, at + 1_000_000);
  })();
  const refused = await write("count", Readable.from(pieces));
  assert.equal(refused.status, 413, refused.text);
  const { length } = tooMany;
  const given = Number(/The first (\d+) bytes/.exec(refused.text)![1]);
  assert.ok(given > length - 1_100_000 && given < length, `${given}`);
  await sandbox.ask("DELETE", "/process/count/stdin");
  assert.equal((await ended("count")).stdout, `${given}\n`);
});

test("bytes of writers that come together stay together, each request's in one piece", async () => {
  await start({ command: "cat", name: "together" });
  const sizes = [10, 70_000, 200_000, 65_536, 1, 130_000];
  const answers = await Promise.all(
    sizes.map((size, index) => write("together", Buffer.alloc(size, String.fromCharCode(97 + index)))),
  );
  assert.ok(answers.every(({ status }) => status === 200));
  await sandbox.ask("DELETE", "/process/together/stdin");
  await ended("together");
  const { stdout } = (await sandbox.ask("GET", "/process/together/logs")).json as { stdout: string };
  const runs = stdout.match(/(.)\1*/g)!;
  assert.deepEqual(
    runs.map((run) => run.length).sort((a, b) => a - b),
    sizes.toSorted((a, b) => a - b),
  );
});

test("a write that names its place may be repeated, and one that leaves a gap is 409", async () => {
  await start({ command: "cat", name: "exact" });
  for (let time = 0; time < 2; time += 1) {
    const answer = await write("exact", "abc", "?offset=0");
    assert.deepEqual([answer.status, (answer.json as { taken: number }).taken], [200, 3]);
  }
  assert.equal(((await write("exact", "cd", "?offset=2")).json as { taken: number }).taken, 4);
  assert.equal((await write("exact", "z", "?offset=9")).status, 409);
  assert.equal((await write("exact", "z", "?offset=-1")).status, 400);
  assert.equal((await write("exact", "z", "?offset=1.5")).status, 400);
  await sandbox.ask("DELETE", "/process/exact/stdin");
  assert.equal((await ended("exact")).stdout, "abcd");
});

test("the input outlives the daemon", async () => {
  await start({ command: "cat", name: "outlives" });
  await write("outlives", "before ");
  await sandbox.restart();
  await write("outlives", "after");
  await sandbox.ask("DELETE", "/process/outlives/stdin");
  assert.equal((await ended("outlives")).stdout, "before after");
});

test("unknown is 404; without input, closed and ended are 409; a reader that stopped is 503", async () => {
  const statusOf = async (identifier: string): Promise<number> => (await write(identifier, "x")).status;
  assert.equal(await statusOf("nobody"), 404);
  assert.equal((await sandbox.ask("DELETE", "/process/nobody/stdin")).status, 404);
  await start({ command: "sleep 60", name: "deaf", stdin: false });
  assert.equal(await statusOf("deaf"), 409);
  assert.equal((await sandbox.ask("DELETE", "/process/deaf/stdin")).status, 409);
  await start({ command: "cat; sleep 60", name: "closed" });
  await sandbox.ask("DELETE", "/process/closed/stdin");
  assert.equal(await statusOf("closed"), 409);
  await start({ command: "exec 0<&-; echo gone; sleep 60", name: "stopped" });
  await eventually(async () => assert.equal((await get("stopped")).stdout, "gone\n"));
  assert.equal(await statusOf("stopped"), 503);
  await start({ command: "true", name: "over" });
  await ended("over");
  assert.equal(await statusOf("over"), 409);
  for (const name of ["deaf", "closed", "stopped"]) await sandbox.ask("DELETE", `/process/${name}/kill`);
});

test("a writer that leaves while the process does not read harms nobody, and its bytes are a beginning of what it sent", async () => {
  await start({ command: "sleep 0.5; cat", name: "slow" });
  const left = Readable.from(
    (function* () {
      for (let index = 0; index < 8; index += 1) yield Buffer.alloc(65_536, "a");
    })(),
  );
  const request = sandbox.send({ method: "POST", path: "/process/slow/stdin", headers: octets }, left);
  request.catch(() => undefined);
  await eventually(() => assert.ok(left.readableEnded || left.readableFlowing === false || left.destroyed));
  left.destroy();
  const answer = await write("slow", "bbb");
  assert.equal(answer.status, 200, answer.text);
  await sandbox.ask("DELETE", "/process/slow/stdin");
  await ended("slow");
  const { stdout } = (await sandbox.ask("GET", "/process/slow/logs")).json as { stdout: string };
  assert.match(stdout, /^a*bbb$/);
});

test("a process without an input of its own reads nothing", async () => {
  const answer = await sandbox.ask("POST", "/process", { json: { command: "wc -c", waitForCompletion: true } });
  assert.deepEqual((answer.json as ProcessResponse).stdout, "0\n");
});
