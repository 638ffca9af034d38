// Many at once and many after another: streams, runs and processes by the hundred leave no zombie, no descriptor and no one waiting.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";
import {
  answerOf,
  assertNothingLeft,
  footprint,
  latencies,
  SandboxUnderAttack,
  textOf,
} from "./sandbox-under-attack.ts";

const streams = 200;
const runsAtOnce = 100;
const runsInARow = 1_000;
const neighboursCount = 10;

let platform: SpawnedPlatform;
let fleet: SandboxUnderAttack[];

before(async () => {
  platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "10m", CATNAP_WARM_INSTANCES: "0" });
  const names = Array.from({ length: neighboursCount }, (_, index) => `crowd-${index}`);
  fleet = await Promise.all(names.map((name) => SandboxUnderAttack.create(platform, name, 1024)));
  await Promise.all(fleet.map((sandbox) => sandbox.run("true")));
});
after(() => platform[Symbol.asyncDispose]());

test(`${streams} streams of one process on one sandbox all get every line`, { timeout: 400_000 }, async (t) => {
  const sandbox = fleet[0]!;
  const before = footprint(sandbox);
  const lines = 500;
  const command = `until [ -e /tmp/go ]; do sleep 0.02; done; for i in $(seq ${lines}); do echo line $i; done`;
  await sandbox.call("POST", "/process", { name: "spoken", command });
  const followed = await Promise.all(
    Array.from({ length: streams }, () => {
      const opened = sandbox.open("GET", "/process/spoken/logs/stream");
      opened.end();
      return answerOf(opened);
    }),
  );
  const held = footprint(sandbox);
  assert.ok(held.processes.length - before.processes.length <= 3, String(held.processes));
  const during = await latencies(40, () => fleet[1]!.run("true"));
  await sandbox.call("PUT", "/filesystem/tmp%2Fgo", { content: "" });
  const expected = Array.from({ length: lines }, (_, index) => `stdout:line ${index + 1}\n`).join("");
  for (const text of await Promise.all(followed.map(textOf))) assert.equal(text, expected);
  t.diagnostic(`a neighbour's exec beside ${streams} streams: median ${during.toFixed(1)} ms`);
  await eventually(() => assertNothingLeft(sandbox, before));
});

test(`${streams} streamed runs of one sandbox at once all come to their own result`, { timeout: 400_000 }, async () => {
  const sandbox = fleet[0]!;
  const before = footprint(sandbox);
  const headers = { accept: "text/event-stream", "content-type": "application/json" };
  const results = await Promise.all(
    Array.from({ length: streams }, async (_, index) => {
      const opened = sandbox.open("POST", "/process", { headers });
      opened.end(JSON.stringify({ command: `echo begin ${index}; sleep 0.5; echo end ${index}; exit ${index}` }));
      const answer = await answerOf(opened);
      const text = await textOf(answer);
      assert.equal(answer.statusCode, 200, text);
      return text
        .trim()
        .split("\n")
        .map((event) => JSON.parse(event) as { type: string; data: string });
    }),
  );
  for (const [index, events] of results.entries()) {
    const output = events.filter(({ type }) => type === "stdout").map(({ data }) => data);
    assert.equal(output.join(""), `begin ${index}\nend ${index}\n`);
    assert.equal((JSON.parse(events.at(-1)!.data) as { exitCode: number }).exitCode, index);
  }
  await eventually(() => assertNothingLeft(sandbox, before));
});

for (const count of [1, neighboursCount]) {
  test(`${runsAtOnce} runs at once on ${count} of the sandboxes are all answered rightly`, {
    timeout: 400_000,
  }, async (t) => {
    const before = footprint(fleet[0]!);
    const startedAt = performance.now();
    const ran = await Promise.all(
      Array.from({ length: runsAtOnce }, (_, index) => fleet[index % count]!.run(`echo ${index}; exit ${index}`)),
    );
    t.diagnostic(`${runsAtOnce} runs took ${(performance.now() - startedAt).toFixed(0)} ms`);
    for (const [index, { stdout, exitCode }] of ran.entries()) {
      assert.deepEqual({ stdout, exitCode }, { stdout: `${index}\n`, exitCode: index });
    }
    await eventually(() => assertNothingLeft(fleet[0]!, before));
  });
}

test(`${runsInARow} processes after another leave no zombie and no descriptor, and lists stay quick`, {
  timeout: 900_000,
}, async (t) => {
  const sandbox = fleet[2]!;
  const list = (): Promise<unknown> => sandbox.call("GET", "/process");
  await sandbox.run("true");
  const before = footprint(sandbox);
  const first = await latencies(20, list);
  for (let index = 0; index < runsInARow; index++) {
    // One in ten leaves an orphan behind that the init has to reap.
    const command = index % 10 === 0 ? "(sleep 0.01 &) ; echo $$" : "echo $$";
    assert.equal((await sandbox.run(command)).exitCode, 0);
  }
  await eventually(() => assertNothingLeft(sandbox, before));
  assert.ok(!sandbox.processes().some((name) => name.endsWith(" Z")));
  const listed = (await list()) as unknown as { pid: string; status: string }[];
  assert.ok(listed.length >= 1_000);
  assert.ok(listed.every(({ status }) => status === "completed"));
  const last = await latencies(20, list);
  const one = await latencies(20, () => sandbox.call("GET", `/process/${listed.at(-1)!.pid}`));
  t.diagnostic(`GET /process: median ${first.toFixed(1)} ms with few, ${last.toFixed(1)} with ${listed.length}`);
  t.diagnostic(`GET /process/{pid} then: median ${one.toFixed(1)} ms`);
});
