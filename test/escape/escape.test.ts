// What root inside a sandbox tries in order to get out of it, to the machine or to another sandbox: all of it fails, in the way expected.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createConnection, createServer, type Server } from "node:net";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { randomToken } from "../../src/core/ids.ts";
import type { InstanceHandle, InstanceSpec } from "../../src/host/drivers/driver.ts";
import { idRange } from "../../src/host/images/id-range.ts";
import { runInside, shell, TestHost } from "../drivers/test-host.ts";

type Instance = InstanceHandle & { spec: InstanceSpec };

const program = readFileSync(join(import.meta.dirname, "attempts.py"), "utf8");

/** Kernel files a machine may not have: refused by their owner where they are. */
const fileOf = (path: string): string => (existsSync(path) ? "EACCES" : "ENOENT");

/** How attempts fail; all others with EPERM, from the system call filter or for want of a capability. */
const otherErrors: Readonly<Record<string, string>> = {
  "clone3 with flags no filter sees": "ENOSYS",
  "open the machine's disk": "ENOENT",
  "open the machine's memory": "ENOENT",
  "open the kernel's log": "ENOENT",
  "open the hypervisor": "ENOENT",
  "press the magic key": fileOf("/proc/sysrq-trigger"),
  "set the core pattern": "EACCES",
  "set the module loader": fileOf("/proc/sys/kernel/modprobe"),
  "set the binary handlers": fileOf("/proc/sys/fs/binfmt_misc/register"),
  "set the host name by a file": "EACCES",
  "set a network setting": "EACCES",
  "raise the inotify limit": "EACCES",
  "set the uevent helper": fileOf("/sys/kernel/uevent_helper"),
  "write a kernel object's event": "EROFS",
  "steer an interrupt": fileOf("/proc/irq/default_smp_affinity"),
  "set a release agent": "ENOENT",
  "leave the control group": "EACCES",
  "make a control group": "EROFS",
  "raise the memory limit": "EACCES",
  "read the init's memory": "EACCES",
  "write the init's memory": "EACCES",
  "read the init's memory map": "EACCES",
  "read the init's environment": "EACCES",
  "open the init's socket": "EACCES",
  "see what the init has open": "EACCES",
  "walk the init's root": "EACCES",
  "open the init's program for writing": "EACCES",
  "change the init's mode": "EROFS",
  "replace the init's program": "EBUSY",
  "remove the init's program": "EBUSY",
  "open the search program for writing": "EACCES",
  "replace the search program": "EBUSY",
  "spare itself when memory is short": "EACCES",
  "take an id beyond the range": "EINVAL",
  "give a file to an id beyond the range": "EINVAL",
};

describe("a sandbox", { timeout: 900_000 }, () => {
  let host: TestHost;
  let inside: Instance;
  let outcomes: Record<string, string>;

  before(async () => {
    host = await TestHost.open({ kind: "oci" });
    inside = await host.create();
    outcomes = await runAttempts([]);
  });

  after(async () => {
    await host[Symbol.asyncDispose]();
    assert.deepEqual(await host.leftovers(), []);
  });

  async function runAttempts(args: readonly string[]): Promise<Record<string, string>> {
    const { stdout, stderr } = await runInside(inside, ["python3", "-c", program, ...args]);
    assert.equal(stderr, "");
    return JSON.parse(stdout) as Record<string, string>;
  }

  async function python(script: string, instance: Instance = inside): Promise<string> {
    const { end, stdout, stderr } = await runInside(instance, ["python3", "-c", script]);
    assert.deepEqual(end, { code: 0 }, stderr);
    return stdout.trim();
  }

  it("lets none of the attempts succeed, each refused as expected", () => {
    const names = Object.keys(outcomes);
    assert.ok(names.length > 80);
    const expected = Object.fromEntries(names.map((name) => [name, otherErrors[name] ?? "EPERM"]));
    assert.deepEqual(outcomes, expected);
    assert.deepEqual(
      Object.keys(otherErrors).filter((name) => !names.includes(name)),
      [],
    );
  });

  it("does what is allowed by the same means", async () => {
    const controls = await runAttempts(["controls"]);
    assert.ok(Object.keys(controls).length >= 12);
    assert.deepEqual(new Set(Object.values(controls)), new Set(["OK"]));
  });

  it("cannot kill or stop its init", async () => {
    await shell(inside, "for signal in KILL STOP TERM ABRT SEGV INT HUP USR1; do kill -$signal 1; done");
    assert.equal(await shell(inside, "echo alive"), "alive");
    const state = /^State:\t(\w)/m.exec(await shell(inside, "cat /proc/1/status"));
    // It may be at work just then, but is neither stopped nor traced.
    assert.match(state?.[1] ?? "", /^[SRD]$/);
  });

  it("traces its own children", async () => {
    const script = `
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
if (pid := os.fork()) == 0: signal.pause()
assert libc.ptrace(16, pid, 0, 0) == 0
assert os.WIFSTOPPED(os.waitpid(pid, 0)[1])
os.kill(pid, 9)
print("traced")`;
    assert.equal(await python(script), "traced");
  });

  it("gains nothing by set-id programs and file capabilities", async () => {
    const own = `cp "$(command -v python3)" /usr/bin/own-python && chmod 6755 /usr/bin/own-python && ls -l /usr/bin/own-python`;
    assert.match(await shell(inside, own), /^-rwsr-sr-x/);
    const script = `
import os, struct, subprocess
os.setxattr("/usr/bin/own-python", "security.capability", struct.pack("<IIIII", 0x02000001, 0xffffffff, 0, 0xffffffff, 0))
code = "import os; print(os.geteuid(), os.getegid(), open('/proc/self/status').read())"
print(subprocess.run(["/usr/bin/own-python", "-c", code], user=1000, group=1000, extra_groups=[], capture_output=True, text=True, check=True).stdout)`;
    const status = await python(script);
    assert.match(status, /^1000 1000 /);
    assert.match(status, /^CapEff:\t0000000000000000$/m);
    assert.match(status, /^CapPrm:\t0000000000000000$/m);
  });

  it("has the abilities it was given and no others", async () => {
    const status = await shell(inside, "cat /proc/self/status");
    for (const name of ["CapPrm", "CapEff", "CapBnd"])
      assert.match(status, new RegExp(`^${name}:\\t00000000800405fb$`, "m"));
    for (const name of ["CapInh", "CapAmb"]) assert.match(status, new RegExp(`^${name}:\\t0000000000000000$`, "m"));
    assert.match(status, /^NoNewPrivs:\t1$/m);
    assert.match(status, /^Seccomp:\t2$/m);
  });

  it("is an unprivileged user on the machine, in namespaces of its own", async () => {
    const pid = JSON.parse(readFileSync(join(inside.spec.dir, "driver/made"), "utf8")).pid as number;
    const uids = /^Uid:\t(\d+)\t(\d+)\t(\d+)\t(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))!.slice(1);
    assert.deepEqual(uids, Array(4).fill(String(idRange.start)));
    assert.equal(
      (await shell(inside, "cat /proc/self/uid_map")).replace(/\s+/g, " ").trim(),
      `0 ${idRange.start} 65536`,
    );
    const names = ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"];
    const own = names.map((name) => execFileSync("readlink", [`/proc/self/ns/${name}`], { encoding: "utf8" }).trim());
    const others = (await shell(inside, names.map((name) => `readlink /proc/self/ns/${name}`).join("; "))).split("\n");
    for (const [index, name] of names.entries()) assert.notEqual(others[index], own[index], name);
  });

  it("sees only its own processes, and no descriptor it was not given", async () => {
    const pids = (await shell(inside, "cd /proc && ls -d [0-9]*")).split("\n").map(Number);
    assert.ok(pids.includes(1) && pids.length < 10);
    assert.equal(
      await python(
        "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')))",
      ),
      "[0, 1, 2] 4",
    );
  });

  it("stays below its root after chroot and dot-dots", async () => {
    await shell(inside, "echo sandbox > /etc/whose");
    const script = `
import os
os.makedirs("/root/cell", exist_ok=True)
here = os.open("/", os.O_RDONLY)
os.chroot("/root/cell"); os.fchdir(here)
for _ in range(64): os.chdir("..")
os.chroot(".")
print(open("/etc/whose").read(), os.path.exists("/proc/1/status"), os.path.exists(${JSON.stringify(host.dataDir)}))`;
    assert.equal((await python(script)).replace(/\s+/g, " "), "sandbox True False");
  });

  it("shows masked files empty", async () => {
    for (const path of ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/key-users"]) {
      if (existsSync(path)) assert.equal(await shell(inside, `head -c 10 ${path} | wc -c`), "0", path);
    }
    if (existsSync("/sys/firmware")) assert.equal(await shell(inside, "ls -A /sys/firmware"), "");
    assert.match(await shell(inside, "head -1 /proc/kallsyms 2>/dev/null || echo 0000000000000000"), /^0+\b/);
  });

  it("does not open device nodes that came with its files", async () => {
    const node = join(inside.spec.dir, "driver/upper/root/disk");
    await shell(inside, "mkdir -p /root/dir");
    execFileSync("mknod", ["-m", "666", node, "c", "1", "5"]);
    execFileSync("chown", [`${idRange.start}:${idRange.start}`, node]);
    assert.equal(execFileSync("head", ["-c", "1", node]).length, 1);
    const handle = await host.driver.restart(inside.spec, AbortSignal.timeout(30_000));
    const { stdout } = await runInside(handle, [
      "sh",
      "-c",
      "stat -c %F /root/disk; head -c 1 /root/disk 2>&1 || true",
    ]);
    assert.match(stdout, /character special file\n.*Permission denied/);
  });

  it("does not change the image", async () => {
    const file = join(host.imageRoot, "etc/passwd");
    const image = readFileSync(file, "utf8");
    await shell(inside, "echo evil >> /etc/passwd; rm -rf /etc/apt; mkdir /etc/apt");
    assert.equal(readFileSync(file, "utf8"), image);
    assert.ok(
      existsSync(join(host.imageRoot, "etc/apt/sources.list.d")) || existsSync(join(host.imageRoot, "etc/apt")),
    );
    const other = await host.create();
    assert.equal(await shell(other, "grep -c evil /etc/passwd || true"), "0");
    await host.driver.destroy(other.id, other.spec.dir);
  });

  it("reaches neither the machine's sockets nor its own from inside", async () => {
    const name = `catnap-test-${randomToken(12)}`;
    await using server = await listen(`\0${name}`);
    assert.ok(server.listening);
    const connect = (address: string): string => `
import errno, socket
with socket.socket(socket.AF_UNIX) as client:
    try: client.connect(${address}); print("OK")
    except OSError as error: print(errno.errorcode[error.errno])`;
    await once(createConnection({ path: `\0${name}` }), "connect").then(() => undefined);
    assert.equal(await python(connect(`"\\0${name}"`)), "ECONNREFUSED");
    assert.equal(await python(connect(JSON.stringify(inside.guestSocketPath))), "ENOENT");
    assert.equal(await shell(inside, "tail -n +2 /proc/net/unix | wc -l"), "0");
  });

  it("sees no files, memory or queues of another sandbox", async () => {
    const other = await host.create();
    const secret = `secret-${randomToken(12)}`;
    const share = `
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.shmget(0x1234, 4096, FLAGS), libc.mq_open(b"/queue", MODE, 0o600, None))`;
    await shell(
      other,
      `echo ${secret} > /root/${secret}; echo ${secret} > /dev/shm/${secret}; echo ${secret} > /tmp/${secret}`,
    );
    assert.doesNotMatch(await python(share.replace("FLAGS", "0o1600").replace("MODE", "0o102"), other), /-1/);
    assert.equal(
      await shell(other, `find / -xdev -name ${secret} | sort | tr '\\n' ' '`),
      `/root/${secret} /tmp/${secret}`,
    );
    assert.equal(await shell(inside, `find / -name ${secret} 2>/dev/null || true`), "");
    assert.equal(await python(share.replace("FLAGS", "0o600").replace("MODE", "2")), "-1 -1");
    await host.driver.destroy(other.id, other.spec.dir);
  });
});

async function listen(path: string): Promise<Server> {
  const server = createServer((connection) => connection.destroy());
  await new Promise<void>((resolve) => {
    server.listen({ path }, resolve);
  });
  return server;
}
