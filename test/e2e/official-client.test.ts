// The official client, unchanged, against a real platform: create, exec with streaming, files, multipart, standby, wake, delete.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";
import { type Client, loadClient, type ClientSandbox as Sandbox } from "./load-client.ts";

let platform: SpawnedPlatform;
let client: Client;
let sandbox: Sandbox;

/** The client's object leaves `state` out, so the platform is asked directly. */
async function stateOf(name: string): Promise<unknown> {
  return (await platform.call("GET", `/v0/sandboxes/${name}`)).state;
}

before(async () => {
  platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "1s" });
  client = await loadClient(platform);
  sandbox = await client.SandboxInstance.create({
    name: "official-client",
    memory: 1024,
    envs: [{ name: "GREETING", value: "good morning" }],
    labels: { suite: "official-client" },
  });
});

after(async () => {
  await platform[Symbol.asyncDispose]();
});

test("a created sandbox is deployed, running and findable", async () => {
  assert.equal(sandbox.metadata.name, "official-client");
  assert.equal(sandbox.status, "DEPLOYED");
  const found = await client.SandboxInstance.get("official-client");
  assert.equal(found.spec.runtime?.memory, 1024);
  assert.equal(found.metadata.labels?.suite, "official-client");
  const listed = await client.SandboxInstance.list();
  const names = listed.data.map(({ metadata }) => metadata.name);
  assert.ok(names.includes("official-client"), `list holds ${names.join(", ")}`);
});

test("a second sandbox of the same name is a conflict, and createIfNotExists returns the first", async () => {
  await assert.rejects(client.SandboxInstance.create({ name: "official-client" }));
  const same = await client.SandboxInstance.createIfNotExists({ name: "official-client" });
  assert.equal(same.metadata.createdAt, sandbox.metadata.createdAt);
});

test("a command runs to its end with output, environment and exit code", async () => {
  const ran = await sandbox.process.exec({
    command: 'echo "$GREETING"; echo oops >&2; exit 3',
    waitForCompletion: true,
  });
  assert.equal(ran.exitCode, 3);
  assert.equal(ran.status, "failed");
  assert.equal(ran.stdout, "good morning\n");
  assert.equal(ran.stderr, "oops\n");
});

test("output streams while the command runs and the final result follows", async () => {
  const lines: string[] = [];
  const ran = await sandbox.process.exec({
    name: "streamed",
    command: "for i in 1 2 3; do echo line $i; done; echo end >&2",
    waitForCompletion: true,
    onStdout: (text: string) => lines.push(...text.split("\n").filter(Boolean)),
    onStderr: (text: string) => lines.push(`! ${text.trim()}`),
  });
  assert.equal(ran.exitCode, 0);
  assert.deepEqual(
    lines.filter((line) => line.startsWith("line")),
    ["line 1", "line 2", "line 3"],
  );
  assert.ok(lines.includes("! end"));
});

test("logs of a background process can be followed and the process stopped", async () => {
  const started = await sandbox.process.exec({
    name: "ticker",
    command: "echo first; while :; do sleep 0.1; echo tick; done",
  });
  assert.equal(started.status, "running");
  const seen = new Set<string>();
  const stream = sandbox.process.streamLogs("ticker", { onStdout: (line: string) => seen.add(line) });
  await eventually(() => assert.ok(seen.has("first") && seen.has("tick")));
  stream.close();
  await sandbox.process.stop("ticker");
  await eventually(async () => assert.equal((await sandbox.process.get("ticker")).status, "stopped"));
  assert.match(await sandbox.process.logs("ticker", "stdout"), /^first\n(tick\n)+$/);
});

test("text and binary files are written, read, listed and removed", async () => {
  await sandbox.fs.mkdir("/tmp/made");
  await sandbox.fs.write("/tmp/made/hello.txt", "grüß dich\n");
  assert.equal(await sandbox.fs.read("/tmp/made/hello.txt"), "grüß dich\n");
  const bytes = randomBytes(100_000);
  await sandbox.fs.writeBinary("/tmp/made/noise.bin", bytes);
  const back = Buffer.from(await (await sandbox.fs.readBinary("/tmp/made/noise.bin")).arrayBuffer());
  assert.ok(back.equals(bytes));
  const listed = await sandbox.fs.ls("/tmp/made");
  assert.deepEqual(listed.files.map(({ name }) => name).sort(), ["hello.txt", "noise.bin"]);
  await sandbox.fs.rm("/tmp/made", true);
  await assert.rejects(sandbox.fs.ls("/tmp/made"));
});

test("a file above 5 MiB goes through the multipart upload and arrives whole", async () => {
  const bytes = randomBytes(12 * 1024 * 1024 + 17);
  await sandbox.fs.writeBinary("/tmp/large.bin", bytes);
  const ran = await sandbox.process.exec({ command: "sha256sum < /tmp/large.bin", waitForCompletion: true });
  assert.equal(ran.stdout?.split(" ")[0], createHash("sha256").update(bytes).digest("hex"));
});

// The counter replaces its file whole: one that is cut to nothing while it is read is an error to the reader.
test("an idle sandbox falls asleep with its memory and processes and wakes on the next request", async () => {
  await sandbox.process.exec({
    name: "counter",
    command:
      'python3 -c \'import os, time\nn = 0\nwhile True:\n  n += 1\n  open("/tmp/n.new", "w").write(str(n))\n  os.replace("/tmp/n.new", "/tmp/n")\n  time.sleep(0.01)\'',
  });
  await eventually(async () => assert.ok(Number(await sandbox.fs.read("/tmp/n")) > 3));
  await eventually(async () => assert.equal(await stateOf("official-client"), "STANDBY"));
  const asleepAt = Number(await sandbox.fs.read("/tmp/n"));
  // It may be asleep again before it is looked at.
  await eventually(async () => {
    await sandbox.process.get("counter");
    assert.equal(await stateOf("official-client"), "RUNNING");
  });
  // The same process goes on counting where it stopped.
  await eventually(async () => assert.ok(Number(await sandbox.fs.read("/tmp/n")) > asleepAt));
  assert.equal((await sandbox.process.get("counter")).status, "running");
});

test("a keepAlive process keeps the sandbox awake until it ends", async () => {
  await client.SandboxInstance.create({ name: "beside", memory: 512 });
  await sandbox.process.exec({ name: "busy", command: "sleep 1000", keepAlive: true });
  // Longer than the idle timeout, however slow the machine: the sandbox beside it falls asleep meanwhile, twice.
  for (let nap = 0; nap < 2; nap++) {
    await platform.call("GET", "/run/main/sandboxes/beside/process");
    await eventually(async () => assert.equal(await stateOf("beside"), "STANDBY"));
    assert.equal(await stateOf("official-client"), "RUNNING");
  }
  await client.SandboxInstance.delete("beside");
  await sandbox.process.kill("busy");
  await eventually(async () => assert.equal(await stateOf("official-client"), "STANDBY"));
});

test("a server inside answers through /port, woken by the request", async () => {
  await sandbox.process.exec({ name: "web", command: "cd /tmp && exec python3 -m http.server 8123 --bind 127.0.0.1" });
  await eventually(async () => {
    const response = await sandbox.fetch(8123, "/n");
    assert.equal(response.status, 200);
  });
  await eventually(async () => assert.equal(await stateOf("official-client"), "STANDBY"));
  const response = await sandbox.fetch(8123, "/n");
  assert.match(await response.text(), /^\d+$/);
});

test("a deleted sandbox is gone and its name is free", async () => {
  await client.SandboxInstance.delete("official-client");
  await eventually(async () => {
    const status = await client.SandboxInstance.get("official-client").then(
      (found) => found.status,
      () => "gone",
    );
    assert.ok(status === "TERMINATED" || status === "gone", status);
  });
  const again = await client.SandboxInstance.create({ name: "official-client" });
  await assert.rejects(again.fs.read("/tmp/large.bin"));
  await client.SandboxInstance.delete("official-client");
});
