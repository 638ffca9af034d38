// The OCI driver: what every driver promises, and what only real isolation can show.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, describe, it } from "node:test";
import { createLogger } from "../../src/core/log.ts";
import type { InstanceSpec } from "../../src/host/drivers/driver.ts";
import { reservedProcesses } from "../../src/host/drivers/oci/bundle.ts";
import { inotifyPerSandbox } from "../../src/host/drivers/oci/user-counters.ts";
import { openGuest } from "../../src/host/guest/guest.ts";
import type { ProcessEnd } from "../../src/sandbox-api/machine.ts";
import { eventually } from "../eventually.ts";
import { describeDriver } from "./conformance.ts";
import { guestBinary, ociRuntime, runInside, shell, TestHost } from "./test-host.ts";

const log = createLogger("silent");

describeDriver("oci");

describe("limits of the oci driver", { timeout: 900_000 }, () => {
  let host: TestHost;

  before(async () => {
    host = await TestHost.open({ kind: "oci" });
  });

  after(async () => {
    await host[Symbol.asyncDispose]();
    assert.deepEqual(await host.leftovers(), []);
  });

  afterEach(() => host.destroyAll());

  it("kills a process that takes too much memory, and not the init", async () => {
    const instance = await host.create({ memoryMb: 128 });
    assert.equal((await host.driver.inspect(instance.id)).oomKills, 0);
    const hog = "blocks = []\nwhile True: blocks.append(bytearray(8 << 20))";
    assert.equal(host.driver.countOomKills(instance.id), 0);
    assert.deepEqual((await runInside(instance, ["python3", "-c", hog])).end, { signal: 9 });
    assert.ok(host.driver.countOomKills(instance.id) >= 1);
    const condition = await host.driver.inspect(instance.id);
    assert.ok(condition.oomKills >= 1);
    assert.ok(condition.memoryBytes <= 128 * 1024 * 1024);
    assert.equal(condition.status, "running");
    assert.equal(await shell(instance, "echo alive"), "alive");
  });

  it("bounds a fork bomb, beside which files are read, programs started and the bomb is ended", async () => {
    const processesMax = 64;
    const instance = await host.create({ processesMax });
    const bomb = "import os, time\nwhile True:\n  try: os.fork()\n  except OSError: time.sleep(0.01)";
    await shell(instance, `setsid python3 -c '${bomb}' > /dev/null 2>&1 &`);
    const forPrograms = processesMax - reservedProcesses(processesMax);
    const count = async () => (await host.driver.inspect(instance.id)).processCount;
    await eventually(async () => assert.ok((await count()) >= forPrograms - 8));
    for (let round = 0; round < 20; round++) {
      assert.ok((await count()) <= processesMax);
      {
        await using guest = await openGuest({ socketPath: instance.guestSocketPath, log, onLost: assert.fail });
        assert.equal((await guest.files.stat("/etc/passwd")).type, "file");
      }
      assert.deepEqual((await runInside(instance, ["cat", "/etc/hostname"])).end, { code: 0 });
    }
    // Not even root inside gives itself more.
    assert.equal(await shell(instance, "exec bash -c 'ulimit -u 100000 2>/dev/null; ulimit -u'"), String(forPrograms));
    await runInside(instance, ["bash", "-c", "kill -STOP -1; kill -KILL -1"]);
    await eventually(async () => {
      await runInside(instance, ["bash", "-c", "kill -KILL -1"]);
      assert.ok((await count()) <= 2);
    });
    await host.driver.destroy(instance.id, instance.spec.dir);
    assert.deepEqual(await host.leftovers(), []);
  });

  it("has terminals inside, and an init that is replaced in place with everything it holds", async () => {
    const instance = await host.create();
    const ends = new Map<string, ProcessEnd>();
    let output = "";
    await using guest = await openGuest({ socketPath: instance.guestSocketPath, log, onLost: assert.fail });
    await guest.attach({
      sink: {
        output: async (_token, _stream, _offset, chunk) => {
          output += chunk.toString();
        },
        exit: async (token, end) => void ends.set(token, end),
      },
      onConnected: async () => undefined,
    });
    const environment = { PATH: "/usr/bin:/bin", TERM: "xterm" };
    const terminal = { columns: 91, rows: 17 };
    await guest.spawn({ token: "shell", argv: ["bash", "--norc", "-i"], workingDir: "/", environment, terminal });
    const powers = "grep -E '^(CapEff|CapPrm|NoNewPrivs)' /proc/1/status | sha256sum";
    await guest.writeStdin("shell", Buffer.from(`tty; stty size; ls -l /dev/pts/0; ${powers}\n`));
    await eventually(() => assert.match(output, /\/dev\/pts\/0\r\n17 91\r\ncrw--w---- 1 root tty .*[0-9a-f]{64}/s));
    const before = /[0-9a-f]{64}/.exec(output)![0];
    for (let round = 0; round < 20; round++) await guest.upgrade(readFileSync(guestBinary));
    output = "";
    await guest.writeStdin("shell", Buffer.from(`stty size; ${powers}; cat /proc/1/comm; exit 6\n`));
    await eventually(() => assert.deepEqual(ends.get("shell"), { code: 6 }));
    assert.match(output, new RegExp(`17 91\r\n${before}  -\r\ncatnap-init`));
    assert.equal((await guest.files.stat("/etc/passwd")).type, "file");
    await guest[Symbol.asyncDispose]();
    assert.equal(await shell(instance, "bash -c 'id -u; ulimit -u'"), `0\n${256 - reservedProcesses(256)}`);
  });

  it("gives a process the share of a core it was limited to, and another after a change", async () => {
    const instance = await host.create({ cpuCores: 0.25 });
    const measure = `
import time
def share():
    wall, cpu = time.monotonic(), time.process_time()
    while time.monotonic() - wall < 1: pass
    return (time.process_time() - cpu) / (time.monotonic() - wall)
print(share())`;
    const share = async (): Promise<number> => Number((await runInside(instance, ["python3", "-c", measure])).stdout);
    // An upper bound only: what else runs on the machine may leave less.
    assert.ok((await share()) < 0.4);
    await host.driver.setLimits(instance.id, { memoryMb: 256, cpuCores: 0.05, processesMax: 64 });
    assert.ok((await share()) < 0.15);
  });

  it("changes the memory limit of a running instance in both directions", async () => {
    const instance = await host.create({ memoryMb: 256 });
    const take = (mb: number) => runInside(instance, ["python3", "-c", `bytearray(${mb} << 20)`]);
    assert.deepEqual((await take(400)).end, { signal: 9 });
    await host.driver.setLimits(instance.id, { memoryMb: 512, cpuCores: 1, processesMax: 64 });
    assert.deepEqual((await take(400)).end, { code: 0 });
    await host.driver.setLimits(instance.id, { memoryMb: 256, cpuCores: 1, processesMax: 64 });
    assert.deepEqual((await take(400)).end, { signal: 9 });
  });

  it("bounds what a sandbox takes of the machine's inotify objects", async () => {
    const instance = await host.create();
    for (const name of ["instances", "watches"]) {
      assert.equal(await shell(instance, `cat /proc/sys/user/max_inotify_${name}`), `${inotifyPerSandbox}`);
      const ofMachine = Number(readFileSync(`/proc/sys/fs/inotify/max_user_${name}`, "utf8"));
      assert.ok(ofMachine > 100 * inotifyPerSandbox);
    }
  });

  it("shows programs inside their own limits", async () => {
    const instance = await host.create({ memoryMb: 192 });
    const { stdout } = await runInside(instance, ["node", "-p", "process.constrainedMemory()"]);
    assert.equal(Number(stdout), 192 * 1024 * 1024);
  });
});

describe("hostile files", { timeout: 400_000 }, () => {
  it("are removed with the instance: deeper than any path, without permissions, with links out of it", async () => {
    await using host = await TestHost.open({ kind: "oci" });
    const outside = join(host.dataDir, "outside");
    writeFileSync(outside, "kept");
    const instance = await host.create();
    const script = `
import os
os.makedirs("/root/deep"); os.chdir("/root/deep")
for _ in range(60): os.mkdir("d" * 200); os.chdir("d" * 200)
open("file", "w").close(); os.chmod("file", 0); os.chmod(".", 0)
os.makedirs("/root/links"); os.symlink(${JSON.stringify(outside)}, "/root/links/file")
os.symlink(${JSON.stringify(host.dataDir)}, "/root/links/dir")
os.mkfifo("/root/links/pipe"); os.mknod("/root/links/socket", 0o140600)
for name in ("", "-n", "new\\nline", "\\udcff"): open(f"/root/links/{name}x", "w").close()
os.chmod("/root", 0)
print("made")`;
    assert.equal((await runInside(instance, ["python3", "-c", script])).stdout, "made\n");
    await host.driver.destroy(instance.id, instance.spec.dir);
    assert.deepEqual(await host.leftovers(), []);
    assert.equal(readFileSync(outside, "utf8"), "kept");
  });

  it("do not mislead a restart: a root without permissions, directories turned into links", async () => {
    await using host = await TestHost.open({ kind: "oci" });
    const instance = await host.create();
    const target = join(host.dataDir, "target");
    mkdirSync(target);
    await shell(
      instance,
      `cp -a /etc /root/etc && rm -rf /etc /tmp /home && ln -s ${target} /etc && ln -s ${target} /tmp && ln -s / /home`,
    );
    await shell(instance, "chmod 0 /");
    const restarted = await host.driver.restart(instance.spec, AbortSignal.timeout(30_000));
    assert.equal(
      await shell(restarted, "readlink /etc; ls /dev/shm /proc/1 > /dev/null && echo whole"),
      `${target}\nwhole`,
    );
    assert.deepEqual(readdirSync(target), []);
    await host.driver.destroy(instance.id, instance.spec.dir);
    assert.deepEqual(readdirSync(target), []);
  });
});

describe("what a killed daemon leaves", { timeout: 900_000 }, () => {
  it("is found and removed, wherever in the making the daemon died", async () => {
    await using host = await TestHost.open({ kind: "oci" });
    const { dataDir, cgroupParent } = host;
    for (const afterMs of [0, 5, 10, 15, 20, 30, 40, 50, 60, 80]) {
      const spec = host.spec();
      mkdirSync(spec.dir, { recursive: true });
      await killDaemonAt(afterMs, { dataDir, cgroupParent, spec, verb: "create" });
      for (const id of new Set([...(await host.driver.listFound()), spec.id])) {
        await host.driver.destroy(id, join(dataDir, "instances", id));
      }
      assert.deepEqual(await host.leftovers(), [], `killed after ${afterMs} ms`);
    }
    // A program the daemon had started may go on a moment longer; nothing may appear after it was cleaned up.
    assert.deepEqual(await host.leftovers(), []);
  });

  it("is whole or dead, with its files, when the daemon died while it started an instance again", async () => {
    await using host = await TestHost.open({ kind: "oci" });
    const { dataDir, cgroupParent } = host;
    const { spec, ...instance } = await host.create();
    await shell(instance, "echo kept > /root/file");
    for (const afterMs of [5, 15, 25, 35, 45, 55, 65, 75, 90]) {
      await killDaemonAt(afterMs, { dataDir, cgroupParent, spec, verb: "restart" });
      await using later = await TestHost.open({ kind: "oci", dataDir, cgroupParent });
      assert.deepEqual(await host.leftovers([spec.id]), [], `killed after ${afterMs} ms`);
      const { status } = await later.driver.inspect(spec.id);
      if (status !== "running") assert.equal(status, "dead");
      else assert.match(await shell(instance, "cat /proc/net/route"), /^eth0\t00000000/m);
      await later.driver.restart(spec, AbortSignal.timeout(30_000));
      assert.equal(await shell(instance, "cat /root/file"), "kept");
    }
    await host.driver.destroy(spec.id, spec.dir);
    assert.deepEqual(await host.leftovers(), []);
  });

  it("is removed also when the runtime was killed half-way", async () => {
    using brief = briefRuntime();
    await using host = await TestHost.open({ kind: "oci", runtime: brief.program });
    const moments = [0, 2, 5, 8, 12, 16, 20, 25, 40, 60, 90];
    let failed = 0;
    // A runtime may be quick and its end late: then it is killed again until it was half-way.
    for (let round = 0; round < moments.length || (failed === 0 && round < 100); round++) {
      const afterMs = moments[round % moments.length]!;
      brief.endAfter(afterMs);
      const spec = host.spec();
      const outcome = await host.driver.create(spec, AbortSignal.timeout(60_000)).then(
        () => "made",
        () => "failed",
      );
      if (outcome === "failed") failed++;
      else await host.driver.destroy(spec.id, spec.dir);
      assert.deepEqual(await host.leftovers(), [], `runtime killed after ${afterMs} ms`);
    }
    assert.ok(failed > 0);
  });
});

type DaemonTask = { dataDir: string; cgroupParent: string; spec: InstanceSpec; verb: "create" | "restart" };

/** Resolves when a daemon that began the task has been killed. */
async function killDaemonAt(afterMs: number, task: DaemonTask): Promise<void> {
  const script = join(import.meta.dirname, "create-and-wait.ts");
  const daemon = spawn(process.execPath, [script, JSON.stringify(task)], { stdio: ["ignore", "pipe", "inherit"] });
  await once(daemon.stdout!, "data");
  const timer = setTimeout(() => daemon.kill("SIGKILL"), afterMs);
  await once(daemon, "exit");
  clearTimeout(timer);
}

/** The runtime, killed so long after it has begun to start an instance. */
function briefRuntime(): { program: string; endAfter(ms: number): void } & Disposable {
  const dir = mkdtempSync(join(tmpdir(), "catnap-runtime-"));
  const program = join(dir, "runtime");
  const script = `#!/bin/sh
case " $* " in *" run "*) ;; *) exec ${ociRuntime} "$@" ;; esac
read -r seconds < ${dir}/seconds
${ociRuntime} "$@" &
[ "$seconds" = 0 ] || sleep "$seconds"
kill -KILL $!
wait $!
`;
  writeFileSync(program, script, { mode: 0o755 });
  return {
    program,
    endAfter: (ms) => writeFileSync(join(dir, "seconds"), `${ms / 1_000}\n`),
    [Symbol.dispose]: () => rmSync(dir, { recursive: true }),
  };
}
