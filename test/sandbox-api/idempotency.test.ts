// Starts with an Idempotency-Key: one run for each key, the same process for whoever repeats it, honest about what is not known.
import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import type { ProcessResponse } from "../../src/contract/sandbox-api/process.ts";
import { eventually } from "../eventually.ts";
import { type Answer, TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
beforeEach(async () => {
  sandbox = await TestSandbox.start();
});
afterEach(() => sandbox[Symbol.asyncDispose]());

function start(key: string, json: object, headers: Record<string, string> = {}): Promise<Answer> {
  return sandbox.ask("POST", "/process", { headers: { "idempotency-key": key, ...headers }, json });
}

const process = (answer: Answer): ProcessResponse => answer.json as ProcessResponse;
const runs = (): number => readFileSync(join(sandbox.workingDir, "ran"), "utf8").trim().split("\n").length;
const isRepeated = ({ headers }: Answer): boolean => headers["idempotent-replayed"] === "true";
const records = (): string[] =>
  readdirSync(join(sandbox.stateDir, "processes")).filter((name) => name.endsWith(".json"));

test("a repeated start is answered about the same process, waiting again or not, also after a restart", async () => {
  const json = { command: "echo run >> ran; echo out; exit 3", waitForCompletion: true };
  const first = await start("a", json);
  assert.deepEqual([first.status, isRepeated(first), process(first).exitCode], [200, false, 3]);
  const second = await start("a", json);
  assert.deepEqual([second.json, isRepeated(second)], [first.json, true]);
  await sandbox.restart();
  const third = await start("a", { waitForCompletion: true, unknown: 1, env: null, command: json.command });
  assert.deepEqual([third.json, isRepeated(third)], [first.json, true]);
  assert.equal(runs(), 1);
});

test("starts that come together with one key run once, and all wait for its end", async () => {
  const json = { command: "echo run >> ran; sleep 0.3; echo done", name: "one", waitForCompletion: true };
  const answers = await Promise.all(Array.from({ length: 20 }, () => start("together", json)));
  assert.deepEqual(new Set(answers.map((answer) => process(answer).pid)).size, 1);
  assert.ok(answers.every((answer) => answer.status === 200 && process(answer).stdout === "done\n"));
  assert.equal(answers.filter(isRepeated).length, 19);
  assert.equal(runs(), 1);
});

test("a repeated start that streams is sent everything from the beginning", async () => {
  const json = { command: "echo run >> ran; echo one; sleep 0.3; echo two", waitForCompletion: true };
  const headers = { accept: "text/event-stream" };
  const [first, second] = await Promise.all([start("s", json, headers), start("s", json, headers)]);
  const third = await start("s", json, headers);
  for (const { text } of [first, second, third]) {
    const events = text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { type: string; data: string });
    const said = events.map(({ type, data }) => (type === "stdout" ? data : "")).join("");
    assert.deepEqual([said, events.at(-1)!.type], ["one\ntwo\n", "result"]);
  }
  assert.equal(runs(), 1);
});

test("another request with the key is 422 and runs nothing", async () => {
  assert.equal((await start("k", { command: "echo run >> ran", env: { A: "1", B: "2" } })).status, 200);
  assert.equal((await start("k", { command: "echo run >> ran", env: { B: "2", A: "1" } })).status, 200);
  for (const other of [
    { command: "echo run >> ran" },
    { command: "true" },
    { command: "echo run >> ran", timeout: 1 },
    { command: "echo run >> ran", workingDir: "/nowhere" },
  ]) {
    const answer = await start("k", other);
    assert.deepEqual([answer.status, Object.keys(answer.json as object)], [422, ["error"]]);
    assert.match(answer.text, /^{"error":"The Idempotency-Key was used with another request/);
  }
  await eventually(() => assert.equal(runs(), 1));
});

test("keys of 1 and 255 characters are taken, others are 400", async () => {
  for (const key of ["x", "k".repeat(255)]) assert.equal((await start(key, { command: "true" })).status, 200);
  for (const key of ["", "k".repeat(256), "a b", "ä"]) {
    assert.equal((await start(key, { command: "true" })).status, 400, key);
  }
});

test("a start that was refused leaves its key free", async () => {
  const json = { command: "echo run >> ran", workingDir: `${sandbox.workingDir}/later`, waitForCompletion: true };
  assert.equal((await start("later", json)).status, 422);
  await sandbox.ask("PUT", "/filesystem/later", { json: { isDirectory: true } });
  const answer = await start("later", json);
  assert.deepEqual([answer.status, isRepeated(answer)], [200, false]);
});

test("neither the key nor what came with it stands in the record", async () => {
  await start("my-secret-key", { command: "true", env: { TOKEN: "hush-hush" }, restartOnFailure: true });
  for (const name of records()) {
    const text = readFileSync(join(sandbox.stateDir, "processes", name), "utf8");
    assert.ok(!text.includes("my-secret-key") && !text.includes("hush-hush"));
  }
});

/** The record of a start that the daemon died in the middle of. */
async function leaveReserved(key: string): Promise<{ json: object }> {
  const json = { command: "echo run >> ran", waitForCompletion: true };
  await start(key, json);
  await sandbox.close();
  const path = join(sandbox.stateDir, "processes", records()[0]!);
  const record = JSON.parse(readFileSync(path, "utf8")) as object;
  const reserved = { ...record, phase: "reserved", status: "running", pid: undefined, journal: undefined };
  writeFileSync(path, JSON.stringify({ ...reserved, exitCode: undefined, completedAtMs: undefined, cause: undefined }));
  return { json };
}

test("a start that the guest never heard of happens when it is repeated", async () => {
  const { json } = await leaveReserved("never");
  await sandbox.open();
  const answer = await start("never", json);
  assert.deepEqual([answer.status, isRepeated(answer), runs()], [200, false, 2]);
});

test("a start that may have run in a machine that is gone is not repeated: its outcome is unknown", async () => {
  const { json } = await leaveReserved("unknown");
  sandbox.startCount += 1;
  await sandbox.open();
  for (let time = 0; time < 2; time += 1) {
    const answer = await start("unknown", json);
    assert.equal(answer.status, 200);
    const { status, exitCode, cause } = process(answer);
    assert.deepEqual([status, exitCode, cause?.kind], ["killed", null, "unknown"]);
    await sandbox.restart();
  }
  assert.equal(runs(), 1);
});

test("without a key every start is another", async () => {
  for (let time = 0; time < 2; time += 1) {
    const json = { command: "echo run >> ran", waitForCompletion: true };
    assert.ok(!isRepeated(await sandbox.ask("POST", "/process", { json })));
  }
  assert.equal(runs(), 2);
});
