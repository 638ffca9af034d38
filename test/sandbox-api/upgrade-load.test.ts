// The init is upgraded through the API while processes talk, files travel and clients follow: every stream is whole, every process the same.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import type { HealthReport } from "../../src/contract/sandbox-api/health.ts";
import type { ProcessResponse } from "../../src/contract/sandbox-api/process.ts";
import { eventually } from "../eventually.ts";
import { TestSandbox } from "./harness.ts";

const upgrades = 10;
const followers = 12;
const transferBytes = 2 * 1024 * 1024;

type Event = { type: string; data: string };

/** Counts from 1 until told to end; resolves with what its stream has told. */
async function followRun(sandbox: TestSandbox, name: string): Promise<Event[]> {
  const until = `[ ! -e ${sandbox.workingDir}/over ]`;
  const command = `i=0; while ${until}; do i=$((i+1)); echo "out $i"; echo "err $i" >&2; [ $((i % 100)) = 0 ] && sleep 0.3; done; exit 7`;
  const headers = { accept: "text/event-stream", "content-type": "application/json" };
  const options = { method: "POST", path: "/process", headers };
  const response = await sandbox.send(options, JSON.stringify({ name, command }));
  const told = await text(response);
  assert.equal(response.statusCode, 200, told);
  const lines = told.trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line) as Event);
}

function assertWhole(events: readonly Event[]): void {
  const of = (type: string): string[] =>
    events
      .map((event) => (event.type === type ? event.data : ""))
      .join("")
      .split("\n")
      .slice(0, -1);
  const [out, err] = [of("stdout"), of("stderr")];
  assert.ok(out.length > 0 && out.length === err.length, `${out.length} and ${err.length} lines`);
  for (const [index, line] of out.entries()) assert.equal(line, `out ${index + 1}`);
  for (const [index, line] of err.entries()) assert.equal(line, `err ${index + 1}`);
  assert.equal((JSON.parse(events.at(-1)!.data) as ProcessResponse).exitCode, 7);
}

async function upgrade(sandbox: TestSandbox): Promise<void> {
  const before = sandbox.upgradeCount;
  assert.equal((await sandbox.ask("POST", "/upgrade")).status, 200);
  const isDone = async (): Promise<void> => {
    const { lastUpgrade } = (await sandbox.ask("GET", "/health")).json as HealthReport;
    assert.equal(lastUpgrade?.status, "completed", lastUpgrade?.error);
  };
  await eventually(isDone);
  assert.equal(sandbox.upgradeCount, before + 1);
}

/** Writes files and reads them back until told to end; resolves with how many. */
async function transfer(sandbox: TestSandbox, isOver: () => boolean): Promise<number> {
  let count = 0;
  for (; !isOver(); count += 1) {
    const content = randomBytes(transferBytes / 2).toString("hex");
    const path = `/filesystem/file-${count % 3}`;
    assert.equal((await sandbox.ask("PUT", path, { json: { content } })).status, 200);
    assert.equal(readFileSync(join(sandbox.workingDir, `file-${count % 3}`), "utf8"), content);
    const read = await sandbox.ask("GET", path, { headers: { accept: "application/octet-stream" } });
    assert.ok(read.body.equals(Buffer.from(content)));
  }
  return count;
}

test(`${upgrades} upgrades keep ${followers} followed processes, their streams and transfers of files whole`, {
  timeout: 180_000,
}, async (t) => {
  await using sandbox = await TestSandbox.start();
  const names = Array.from({ length: followers }, (_, index) => `run-${index}`);
  const following = Promise.all(names.map((name) => followRun(sandbox, name)));
  // What fails first is told; the streams then end with the sandbox.
  following.catch(() => undefined);
  const pids = async (): Promise<string[]> => {
    const listed = (await sandbox.ask("GET", "/process")).json as ProcessResponse[];
    const running = listed.filter(({ status }) => status === "running");
    return running.map(({ name, pid }) => `${name} ${pid}`).sort();
  };
  const before = await eventually(async () => {
    const found = await pids();
    assert.equal(found.length, followers);
    return found;
  });
  let isOver = false;
  const transferring = transfer(sandbox, () => isOver);
  transferring.catch(() => undefined);
  for (let round = 0; round < upgrades; round += 1) {
    await upgrade(sandbox);
    assert.deepEqual(await pids(), before);
  }
  isOver = true;
  assert.ok((await transferring) > 0);
  assert.equal((await sandbox.ask("PUT", "/filesystem/over", { json: { content: "" } })).status, 200);
  const events = await following;
  for (const told of events) assertWhole(told);
  t.diagnostic(`${events.reduce((sum, told) => sum + told.length, 0)} pieces of output came`);
});
