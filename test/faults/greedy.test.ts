// Sandboxes that take whatever they can get: processes, memory, processor, disk and connections. Their neighbours and the platform go on, and so do they.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";
import {
  assertNothingLeft,
  countDescriptors,
  footprint,
  latencies,
  SandboxUnderAttack,
} from "./sandbox-under-attack.ts";

let platform: SpawnedPlatform;
let neighbour: SandboxUnderAttack;

before(async () => {
  platform = await spawnPlatform({
    CATNAP_IDLE_TIMEOUT: "10m",
    CATNAP_WARM_INSTANCES: "0",
    CATNAP_PROCESSES_MAX: "512",
  });
  neighbour = await SandboxUnderAttack.create(platform, "neighbour");
  await neighbour.run("true");
});
after(() => platform[Symbol.asyncDispose]());

/** Median latencies of a neighbour's run, before and beside the greedy one: figures, not judged. */
async function beside(quietMs: number): Promise<string> {
  const busyMs = await latencies(20, () => neighbour.run("true"));
  return `a neighbour's run: median ${quietMs.toFixed(1)} ms before, ${busyMs.toFixed(1)} ms beside it`;
}

test("a fork bomb and a memory hog together: the cause is told, files and runs come back", {
  timeout: 400_000,
}, async (t) => {
  const quietMs = await latencies(20, () => neighbour.run("true"));
  const sandbox = await SandboxUnderAttack.create(platform, "bomb", 256);
  const hog = "python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 22))'";
  await sandbox.call("POST", "/process", { name: "bomb", command: "bash -c ':(){ :|:& };:'; sleep 1000" });
  const hogged = await sandbox.call("POST", "/process", { name: "hog", command: `exec ${hog}` }).catch(() => undefined);
  t.diagnostic(await beside(quietMs));
  for (let round = 0; round < 5; round++) assert.equal((await neighbour.run("echo fine")).stdout, "fine\n");
  assert.ok(Array.isArray(await sandbox.call("GET", "/process")));
  t.diagnostic(`the hog ${hogged === undefined ? "found no process to run in" : "ran"}`);
  await sandbox.call("DELETE", "/process/bomb/kill").catch(() => undefined);
  // What a fork bomb leaves keeps forking in groups of its own; a run that ends all of them gets its process in the end.
  await eventually(() => sandbox.run("kill -9 -1"));
  await eventually(async () => assert.equal((await sandbox.run("echo back")).stdout, "back\n"));
  await sandbox.delete();
});

test("a memory hog is killed, told as out of memory, and the sandbox works on", { timeout: 400_000 }, async () => {
  const sandbox = await SandboxUnderAttack.create(platform, "hog", 256);
  const ran = await sandbox.run("exec python3 -c 'x = bytearray(1 << 30)'");
  assert.deepEqual([ran.status, ran.exitCode], ["killed", 137]);
  assert.match(JSON.stringify(ran.cause), /memory/i);
  assert.deepEqual(
    (await sandbox.status()).errors.map(({ code }) => code),
    ["OUT_OF_MEMORY"],
  );
  assert.equal((await sandbox.run("echo back")).stdout, "back\n");
  await sandbox.delete();
});

test("short requests beside hogs of the processor are answered, in the same sandbox and in others", {
  timeout: 400_000,
}, async (t) => {
  const sandbox = await SandboxUnderAttack.create(platform, "spinning");
  const ownQuietMs = await latencies(20, () => sandbox.run("true"));
  const quietMs = await latencies(20, () => neighbour.run("true"));
  for (let spinner = 0; spinner < 8; spinner++) {
    await sandbox.call("POST", "/process", { name: `spin-${spinner}`, command: "while :; do :; done" });
  }
  t.diagnostic(await beside(quietMs));
  const ownMs = await latencies(10, () => sandbox.run("true"));
  t.diagnostic(`its own runs: median ${ownQuietMs.toFixed(1)} ms before, ${ownMs.toFixed(1)} ms beside them`);
  const files = await latencies(10, () => sandbox.call("GET", "/filesystem/tree/etc/apt"));
  t.diagnostic(`its own files: median ${files.toFixed(1)} ms`);
  await sandbox.delete();
});

test("a disk of its own in memory that is full refuses with the reason and serves again with room", {
  timeout: 400_000,
}, async () => {
  const sandbox = await SandboxUnderAttack.create(platform, "full", 4096);
  assert.match((await sandbox.run("dd if=/dev/zero of=/dev/shm/full bs=64k")).logs as string, /No space left/);
  const content = "x".repeat(100_000);
  await assert.rejects(sandbox.call("PUT", "/filesystem/dev%2Fshm%2Fmore", { content }), /answered 4\d\d: .*space/i);
  assert.equal((await sandbox.run("echo runs")).stdout, "runs\n");
  await sandbox.run("rm /dev/shm/full");
  await sandbox.call("PUT", "/filesystem/dev%2Fshm%2Fmore", { content });
  assert.equal((await sandbox.call("GET", "/filesystem/dev%2Fshm%2Fmore")).content, content);
  await sandbox.delete();
});

const connections = 10_000;

test(`a sandbox that opens ${connections} connections to its own port through the platform leaves none`, {
  timeout: 400_000,
}, async (t) => {
  const sandbox = await SandboxUnderAttack.create(platform, "proxied", 1024);
  const server = `
import socket, threading
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("0.0.0.0", 8000)); s.listen(1024)
while True:
    c, _ = s.accept()
    c.recv(4096); c.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\nconnection: close\\r\\n\\r\\nok"); c.close()
`;
  await sandbox.call("PUT", "/filesystem/tmp%2Fserver.py", { content: server });
  await sandbox.call("POST", "/process", { name: "server", command: "exec python3 /tmp/server.py" });
  await eventually(() => ask(sandbox));
  const before = footprint(sandbox);
  const quietMs = await latencies(20, () => neighbour.run("true"));
  const tally = new Map<number, number>();
  let left = connections;
  const caller = async (): Promise<void> => {
    while (left-- > 0) {
      const status = await ask(sandbox).catch(() => 0);
      tally.set(status, (tally.get(status) ?? 0) + 1);
    }
  };
  const calling = Promise.all(Array.from({ length: 100 }, caller));
  t.diagnostic(await beside(quietMs));
  t.diagnostic(`descriptors of the daemon meanwhile: ${countDescriptors(platform.pid)}`);
  await calling;
  t.diagnostic(`answers by status: ${JSON.stringify([...tally])}`);
  assert.equal(tally.get(200), connections);
  await eventually(() => assertNothingLeft(sandbox, before));
  await sandbox.delete();
});

function ask(sandbox: SandboxUnderAttack): Promise<number> {
  return new Promise((resolve, reject) => {
    const opened = sandbox.open("GET", "/port/8000/");
    opened.once("response", (answer) => {
      answer.resume().once("end", () => resolve(answer.statusCode ?? 0));
      answer.once("error", reject);
    });
    opened.once("error", reject);
    opened.end();
  });
}
