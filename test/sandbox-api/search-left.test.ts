// A search that nobody awaits any more stops what it runs inside, and gives its place to the next.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { TestSandbox } from "./harness.ts";

/** Sends and does not wait; the returned function is the caller leaving. */
async function sendAndLeave(sandbox: TestSandbox, path: string): Promise<() => void> {
  const sent = request({ host: "127.0.0.1", port: sandbox.port, path, agent: false });
  sent.on("error", () => undefined).end();
  await new Promise<void>((resolve) => sent.once("socket", (socket) => socket.once("connect", () => resolve())));
  return () => sent.destroy();
}

function childrenOf(pid: number): string[] {
  const { stdout } = spawnSync("ps", ["--ppid", String(pid), "-o", "comm="], { encoding: "utf8" });
  return stdout.split("\n").filter((name) => name !== "");
}

test("a content search whose caller leaves ends the program that runs it", async () => {
  await using sandbox = await TestSandbox.start();
  const large = join(sandbox.workingDir, "large");
  fs.writeFileSync(large, "ordinary text\n".repeat(2_000_000));
  // As many names of one file are minutes of reading and no room on the disk.
  for (let index = 0; index < 2_000; index++) fs.linkSync(large, `${large}${index}`);
  const leave = await sendAndLeave(sandbox, "/filesystem-content-search?query=needle");
  await eventually(() => assert.ok(childrenOf(sandbox.guestPid).includes("rg")));
  leave();
  await eventually(() => assert.ok(!childrenOf(sandbox.guestPid).includes("rg")));
});

test("searches by names whose callers leave hold no place and no worker", async () => {
  await using sandbox = await TestSandbox.start();
  fs.writeFileSync(join(sandbox.workingDir, "found.txt"), "");
  process.kill(sandbox.guestPid, "SIGSTOP");
  const leaving: (() => void)[] = [];
  try {
    // More than may run and wait at once together.
    for (let index = 0; index < 100; index++) {
      const route = index % 2 === 0 ? "/filesystem-find" : "/filesystem-search?query=found";
      leaving.push(await sendAndLeave(sandbox, route));
    }
  } finally {
    for (const leave of leaving) leave();
    process.kill(sandbox.guestPid, "SIGCONT");
  }
  const { json } = await sandbox.ask("GET", "/filesystem-find?patterns=found.txt");
  assert.deepEqual(json, { matches: [{ path: "found.txt", type: "file" }], total: 1 });
  await eventually(() => assert.deepEqual(childrenOf(sandbox.guestPid), []));
});

test("patterns and names made to compare slowly let other requests through", async () => {
  await using sandbox = await TestSandbox.start();
  const dir = join(sandbox.workingDir, `${"a".repeat(200)}/${"a".repeat(200)}/${"a".repeat(200)}`);
  fs.mkdirSync(dir, { recursive: true });
  execFileSync("sh", ["-c", `cd "$1" && for i in $(seq 60); do : > ${"a".repeat(200)}$i; done`, "sh", dir]);
  const pattern = `**/${"*a".repeat(60)}b`;
  const patterns = encodeURIComponent(Array.from({ length: 32 }, () => pattern).join(","));
  let isOver = false;
  const searching = sandbox.ask("GET", `/filesystem-find?patterns=${patterns}`).then((answer) => {
    isOver = true;
    return answer;
  });
  let answered = 0;
  while (!isOver) {
    await sandbox.ask("GET", "/filesystem-find?patterns=none&excludeDirs=&maxResults=1");
    answered += 1;
  }
  assert.equal((await searching).status, 200);
  assert.ok(answered >= 2, `only ${answered} were answered meanwhile`);
});
