// Many processes and many readers: no zombie, no descriptor left, lists that stay quick, every reader gets every byte.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { after, before, test } from "node:test";
import type { ProcessResponse } from "../../src/contract/sandbox-api/process.ts";
import { eventually } from "../eventually.ts";
import { TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
before(async () => {
  sandbox = await TestSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());

const descriptorsOf = (pid: number | "self"): number => readdirSync(`/proc/${pid}/fd`).length;

function zombiesOf(parent: number): number {
  return readdirSync("/proc").filter((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      const [state, ppid] = readFileSync(`/proc/${name}/stat`, "latin1")
        .replace(/^.*\) /s, "")
        .split(" ");
      return state === "Z" && Number(ppid) === parent;
    } catch {
      return false;
    }
  }).length;
}

async function run(json: object): Promise<ProcessResponse> {
  const answer = await sandbox.ask("POST", "/process", { json });
  assert.equal(answer.status, 200, answer.text);
  return answer.json as ProcessResponse;
}

test("1,100 processes leave no zombie and no descriptor, and the newest 1,000 are listed after a restart, too", async (t) => {
  const guest = sandbox.guestPid;
  await run({ command: "true", waitForCompletion: true });
  const before = { host: descriptorsOf("self"), guest: descriptorsOf(guest) };
  for (let batch = 0; batch < 110; batch += 1) {
    const names = Array.from({ length: 10 }, (_, index) => `p-${batch * 10 + index}`);
    await Promise.all(
      names.map((name) => run({ command: `echo ${name}`, name, stdin: true, waitForCompletion: true })),
    );
  }
  await eventually(() => {
    assert.equal(zombiesOf(guest), 0);
    assert.ok(descriptorsOf(guest) <= before.guest, `${descriptorsOf(guest)} of ${before.guest}`);
    assert.ok(descriptorsOf("self") <= before.host + 5, `${descriptorsOf("self")} of ${before.host}`);
  });
  for (let time = 0; time < 2; time += 1) {
    const startedAt = performance.now();
    const list = (await sandbox.ask("GET", "/process")).json as ProcessResponse[];
    t.diagnostic(`a list of 1,000 took ${(performance.now() - startedAt).toFixed(1)} ms`);
    assert.equal(list.length, 1_000);
    assert.equal(new Set(list.map(({ name }) => name)).size, 1_000);
    assert.equal((await sandbox.ask("GET", "/process/p-1099")).status, 200);
    assert.equal(((await sandbox.ask("GET", "/process/p-1099/logs")).json as { stdout: string }).stdout, "p-1099\n");
    await sandbox.restart();
  }
});

test("200 readers of one process, from anywhere in its output, get every byte once", async () => {
  const lines = 20_000;
  const command = `i=0; while [ $i -lt ${lines} ]; do echo "line $i"; i=$((i+1)); [ $((i % 500)) = 0 ] && sleep 0.01; done; true`;
  const { pid } = await run({ command });
  await eventually(async () => {
    const { stdout } = (await sandbox.ask("GET", `/process/${pid}/logs`)).json as { stdout: string };
    assert.ok(stdout.length > 20_000);
  });
  const whole = Array.from({ length: lines }, (_, index) => `line ${index}\n`).join("");
  const offsets = Array.from({ length: 200 }, (_, index) => index * 100);
  const read = await Promise.all(
    offsets.map(async (offset) => {
      const path = `/process/${pid}/logs/stream?stdoutOffset=${offset}`;
      const response = await sandbox.send({ path, headers: { accept: "application/x-ndjson" } });
      const events = (await text(response))
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line) as { type: string; data: string });
      assert.equal(events.at(-1)!.type, "result");
      return events.map(({ type, data }) => (type === "stdout" ? data : "")).join("");
    }),
  );
  for (const [index, offset] of offsets.entries()) assert.ok(read[index] === whole.slice(offset), `from ${offset}`);
});

test("the prefixed lines begin at an offset, too, and one that is not reached yet is 416", async () => {
  const { pid } = await run({ command: "printf 'one\\ntwo\\n'; printf 'err\\n' >&2", waitForCompletion: true });
  const path = `/process/${pid}/logs/stream`;
  assert.equal((await sandbox.ask("GET", `${path}?stdoutOffset=4&stderrOffset=4`)).text, "stdout:two\n");
  assert.equal((await sandbox.ask("GET", `${path}?stdoutOffset=8`)).text, "stderr:err\n");
  assert.equal((await sandbox.ask("GET", `${path}?stdoutOffset=9`)).status, 416);
  assert.equal((await sandbox.ask("GET", `${path}?stderrOffset=x`)).status, 400);
});
