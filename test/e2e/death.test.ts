// Death of real instances: killed from outside, out of memory, overrun by their own processes, gone with the machine. Files stay, causes are told.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { Cgroups, readCgroupLayout } from "../../src/host/drivers/oci/cgroup/cgroups.ts";
import { daemonPaths, groupParent } from "../../src/host/drivers/oci/paths.ts";
import { type InstanceRecord, readRecords } from "../../src/host/instances/record.ts";
import { findLeftovers } from "../drivers/leftovers.ts";
import { eventually } from "../eventually.ts";

const processesMax = 128;

let platform: SpawnedPlatform;

before(async () => {
  platform = await spawnPlatform({
    CATNAP_IDLE_TIMEOUT: "300ms",
    CATNAP_WARM_INSTANCES: "1",
    CATNAP_PROCESSES_MAX: String(processesMax),
  });
  await platform.warmed();
});
after(() => platform[Symbol.asyncDispose]());

type Sandbox = {
  name: string;
  call(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>;
  run(command: string): Promise<Record<string, unknown>>;
  status(): Promise<{ state: string; status: string; errors: { code: string; fatal: boolean; message: string }[] }>;
};

async function create(name: string, memory = 256): Promise<Sandbox> {
  await platform.call("POST", "/v0/sandboxes", { metadata: { name }, spec: { runtime: { memory } } });
  const call: Sandbox["call"] = (method, path, body) =>
    platform.call(method, `/run/main/sandboxes/${name}${path}`, body);
  return {
    name,
    call,
    run: (command) => call("POST", "/process", { command, waitForCompletion: true }),
    status: async () => (await platform.call("GET", `/v0/sandboxes/${name}`)) as never,
  };
}

async function remove(...sandboxes: Sandbox[]): Promise<void> {
  for (const { name } of sandboxes) await platform.call("DELETE", `/v0/sandboxes/${name}`);
}

function records(): InstanceRecord[] {
  const found = readRecords(join(platform.dataDir, "instances"));
  return found.flatMap(({ record }) => (typeof record === "string" ? [] : [record]));
}

function instanceOf({ name }: Sandbox): InstanceRecord {
  return records().find(({ claim }) => claim?.sandboxName === name) ?? assert.fail(`${name} has no instance`);
}

function killInit({ id }: InstanceRecord): void {
  const made = readFileSync(join(platform.dataDir, "instances", id, "driver/made"), "utf8");
  process.kill((JSON.parse(made) as { pid: number }).pid, "SIGKILL");
}

test("a sandbox whose init is killed again and again, awake and asleep, restarts on its files every time", async () => {
  const sandbox = await create("killed");
  await sandbox.run("echo kept > /root/file; mkdir -p /etc/made && ln -s /root/file /etc/made/link");
  for (let death = 1; death <= 4; death++) {
    const name = `long-${death}`;
    const isAsleep = death % 2 === 0;
    await sandbox.call("POST", "/process", { name, command: "sleep 1000", keepAlive: !isAsleep });
    if (isAsleep) await eventually(async () => assert.equal((await sandbox.status()).state, "STANDBY"));
    killInit(instanceOf(sandbox));
    // Where a frozen process dies only when it is thawed, the request that thaws it may see it die.
    if (isAsleep) await sandbox.call("GET", "/filesystem/root%2Ffile").catch(() => undefined);
    await eventually(async () => assert.equal((await sandbox.status()).errors.length, death));
    assert.equal((await sandbox.run("cat /etc/made/link")).stdout, "kept\n");
    assert.equal((await sandbox.call("GET", `/process/${name}`)).status, "killed");
    const { errors, status } = await sandbox.status();
    assert.equal(status, "DEPLOYED");
    assert.deepEqual(
      errors.map(({ code, fatal }) => `${code} ${fatal}`),
      Array.from({ length: death }, () => "INSTANCE_LOST false"),
    );
  }
  await remove(sandbox);
});

test("who waits for a command when the init is killed learns that the command was", async () => {
  const sandbox = await create("waiting");
  const body = { name: "waited", command: "echo begun; exec sleep 1000", waitForCompletion: true };
  const waiting = sandbox.call("POST", "/process", body);
  await eventually(async () => assert.equal((await sandbox.call("GET", "/process/waited")).stdout, "begun\n"));
  killInit(instanceOf(sandbox));
  const { status, stdout, exitCode } = await waiting;
  assert.deepEqual({ status, stdout, exitCode }, { status: "killed", stdout: "begun\n", exitCode: null });
  await remove(sandbox);
});

test("a process that takes all memory is killed, and the sandbox goes on", async () => {
  const sandbox = await create("hungry");
  const ran = await sandbox.run("exec python3 -c 'x = bytearray(1 << 30)'");
  assert.deepEqual([ran.status, ran.exitCode], ["killed", 137]);
  assert.equal((await sandbox.run("echo alive")).stdout, "alive\n");
  // Memory of a file system nobody can be killed for is bounded, too.
  assert.notEqual((await sandbox.run("dd if=/dev/zero of=/dev/shm/full bs=1M count=1000")).exitCode, 0);
  assert.equal((await sandbox.run("rm /dev/shm/full; echo alive")).stdout, "alive\n");
  await remove(sandbox);
});

test("a fork bomb meets its limit, leaves room to work on its sandbox, and bothers nobody else", async () => {
  const [bomb, neighbour] = await Promise.all([create("bomb"), create("neighbour")]);
  await bomb.call("PUT", "/filesystem/root%2Ffile", { content: "kept" });
  await bomb.call("POST", "/process", { name: "bomb", command: "bash -c ':(){ :|:& };:'; sleep 1000" });
  await eventually(async () => {
    const { exitCode, stderr } = await bomb.run("ls / | cat | cat | cat > /dev/null");
    assert.ok(exitCode !== 0 || /fork/i.test(String(stderr)), "its programs can still start others");
  });
  for (let round = 0; round < 5; round++) {
    assert.equal((await neighbour.run("echo fine")).stdout, "fine\n");
    assert.equal((await bomb.run("echo here")).stdout, "here\n");
    assert.equal((await bomb.call("GET", "/filesystem/root%2Ffile")).content, "kept");
    assert.equal((await bomb.call("GET", "/health")).status, "ok");
  }
  await remove(await create("made-meanwhile"), bomb, neighbour);
  await eventually(() => assert.ok(!records().some(({ claim }) => /bomb|neighbour/.test(claim?.sandboxName ?? ""))));
});

test("a sandbox with as many processes as it may have serves its files and ends what fills it", async () => {
  const sandbox = await create("full");
  await sandbox.call("PUT", "/filesystem/root%2Ffile", { content: "kept" });
  // It takes every place that comes free: what served a file inside leaves one when it ends.
  const script = `import os, time
while True:
    try:
        if os.fork() == 0: time.sleep(1000)
    except OSError: time.sleep(0.01)`;
  const full = `exec python3 -c '${script}'`;
  await sandbox.call("POST", "/process", { name: "full", command: full });
  // A shell would wait and try again for 15 seconds before it said so.
  const fork = `exec python3 -c 'import os; os.wait() if os.fork() else os._exit(0)'`;
  await eventually(async () => assert.notEqual((await sandbox.run(fork)).exitCode, 0, "there is still room"));
  assert.equal((await sandbox.call("GET", "/filesystem/root%2Ffile")).content, "kept");
  await sandbox.call("PUT", "/filesystem/root%2Fnew", { content: "" });
  await sandbox.call("DELETE", "/process/full/kill");
  await eventually(async () => {
    const { exitCode, stderr } = await sandbox.run(fork);
    assert.deepEqual([exitCode, stderr], [0, ""]);
  });
  await remove(sandbox);
});

test("a warm instance that is killed is replaced, and a creation in between is served", async () => {
  await platform.warmed();
  const warm = (): InstanceRecord[] => records().filter(({ phase }) => phase === "warm");
  const [victim] = await eventually(() => {
    assert.equal(warm().length, 1);
    return warm();
  });
  killInit(victim!);
  const sandbox = await create("unlucky");
  assert.equal((await sandbox.run("echo fine")).stdout, "fine\n");
  await eventually(() => {
    assert.equal(warm().length, 1);
    assert.ok(!records().some(({ id }) => id === victim!.id));
  });
  await remove(sandbox);
});

test("after the machine went down, sandboxes start again on their files when somebody asks", async () => {
  const [asleep, awake] = await Promise.all([create("asleep"), create("awake")]);
  for (const sandbox of [asleep, awake]) {
    await sandbox.call("PUT", "/filesystem/root%2Ffile", { content: sandbox.name });
    await sandbox.call("POST", "/process", { name: "long", command: "sleep 1000" });
  }
  await awake.call("POST", "/process", { name: "kept", command: "sleep 1000", keepAlive: true, timeout: 0 });
  await eventually(async () => assert.equal((await asleep.status()).state, "STANDBY"));
  await platform.kill();
  await turnMachineOff();
  await platform.start();
  for (const sandbox of [asleep, awake]) {
    const { errors, state, status } = await sandbox.status();
    assert.deepEqual([status, state, errors.length], ["DEPLOYED", "STANDBY", 1]);
    assert.match(errors[0]!.message, /^The machine .* stopped/);
    assert.equal((await sandbox.call("GET", "/filesystem/root%2Ffile")).content, sandbox.name);
    assert.equal((await sandbox.call("GET", "/process/long")).status, "killed");
    assert.equal((await sandbox.run("grep 00000000 /proc/net/route")).exitCode, 0);
  }
  await remove(asleep, awake);
});

/** What is gone after a reboot: processes, control groups, the runtime's records, network devices and the packet filter. */
async function turnMachineOff(): Promise<void> {
  const paths = daemonPaths(platform.dataDir);
  const cgroups = new Cgroups(readCgroupLayout(), groupParent(paths, platform.env.CATNAP_CGROUP_PARENT!));
  for (const id of cgroups.listIds()) {
    await cgroups.killAll(id);
    await cgroups.remove(id);
  }
  cgroups.removeParents();
  rmSync(paths.runDir, { recursive: true });
  spawnSync("nft", ["delete", "table", "inet", `catnap_${paths.tag}`], { stdio: "inherit" });
}

test("with an init that does not start nothing is created, and nothing is left", async () => {
  await using broken = await spawnPlatform({ CATNAP_GUEST_BINARY: "/bin/false", CATNAP_WARM_INSTANCES: "1" });
  const spec = { runtime: { memory: 256 } };
  for (const name of ["first", "second"]) {
    await assert.rejects(
      broken.call("POST", "/v0/sandboxes", { metadata: { name }, spec }),
      /answered 50[03]: .*"error"/,
    );
    await assert.rejects(broken.call("GET", `/v0/sandboxes/${name}`), /404/);
  }
  assert.deepEqual(await broken.call("GET", "/v0/sandboxes"), []);
  const query = { dataDir: broken.dataDir, cgroupParent: broken.env.CATNAP_CGROUP_PARENT! };
  // The pool tries again from time to time: it is looked for a moment between two tries.
  await eventually(async () => assert.deepEqual(await findLeftovers(query), []));
});
