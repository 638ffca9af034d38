// The official client's whole view of processes, unchanged, on a real sandbox: input, ports, restarts, streams, and a key in a header.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";
import { loadClient, type ClientSandbox as Sandbox } from "./load-client.ts";

let platform: SpawnedPlatform;
let sandbox: Sandbox;

before(async () => {
  platform = await spawnPlatform({});
  const client = await loadClient(platform);
  sandbox = await client.SandboxInstance.create({ name: "processes", memory: 1024 });
});

after(async () => {
  await platform[Symbol.asyncDispose]();
});

test("a process is fed and its input closed", async () => {
  const { stdin } = await sandbox.process.exec({ name: "fed", command: "cat; echo end", stdin: true });
  assert.equal(stdin, true);
  await sandbox.process.writeStdin("fed", '{"jsonrpc":"2.0"}\n');
  await sandbox.process.writeStdin("fed", "second\n");
  await sandbox.process.closeStdin("fed");
  await sandbox.process.closeStdin("fed");
  const found = await sandbox.process.wait("fed", { interval: 100 });
  assert.deepEqual([found.status, found.stdout], ["completed", '{"jsonrpc":"2.0"}\nsecond\nend\n']);
  await assert.rejects(sandbox.process.writeStdin("fed", "late\n"));
});

test("a server is waited for and then reached", async () => {
  const script = 'require("http").createServer((q, a) => a.end("hello")).listen(3000)';
  const command = `sleep 0.5; exec node -e '${script}'`;
  const { status } = await sandbox.process.exec({ name: "server", command, waitForPorts: [3000] });
  assert.equal(status, "running");
  const answer = await sandbox.fetch(3000, "/");
  assert.equal(await answer.text(), "hello");
  const late = sandbox.process.exec({ name: "none", command: "sleep 60", waitForPorts: [3999], timeout: 1 });
  await assert.rejects(late, /timed out after 1 seconds/);
  await sandbox.process.kill("none");
  await sandbox.process.stop("server");
  await eventually(async () => assert.equal((await sandbox.process.get("server")).status, "stopped"));
});

test("a process that fails is run again, and its output is streamed over the runs", async () => {
  let streamed = "";
  const found = await sandbox.process.exec({
    command: "if [ -e /tmp/twice ]; then echo works; else touch /tmp/twice; echo fails; exit 2; fi",
    restartOnFailure: true,
    maxRestarts: 3,
    waitForCompletion: true,
    onStdout: (text) => {
      streamed += text;
    },
  });
  assert.deepEqual([found.status, found.exitCode, found.restartCount], ["completed", 0, 1]);
  assert.equal(streamed, "fails\n[process exited with code 2; restart 1 of 3]\nworks\n");
});

test("a start with a key runs once through the platform, also when it is killed in between", async () => {
  const base = sandbox.metadata!.url!;
  const ask = async (): Promise<{ pid: string; stdout: string }> => {
    const response = await fetch(`${base}/process`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${platform.apiKey}`,
        "content-type": "application/json",
        "idempotency-key": "through-the-edge",
      },
      body: JSON.stringify({ command: "echo run >> /tmp/once; sleep 1; wc -l < /tmp/once", waitForCompletion: true }),
    });
    assert.equal(response.status, 200, await response.clone().text());
    return (await response.json()) as { pid: string; stdout: string };
  };
  const cutOff = ask();
  const started = eventually(async () => assert.equal(await sandbox.fs.read("/tmp/once"), "run\n"));
  await Promise.all([started, cutOff.catch(() => undefined), started.then(() => platform.kill())]);
  await platform.start();
  const again = await ask();
  assert.equal(again.stdout.trim(), "1");
  assert.deepEqual(await ask(), again);
});
