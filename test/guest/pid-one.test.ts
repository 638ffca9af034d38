// The guest as what it is made for: PID 1 of a PID namespace, whose inhabitants try to stop, trace or starve it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { Recorder } from "./recorder.ts";
import { buildGuest, type RunningGuest, type StartOptions, startGuest } from "./start-guest.ts";

const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const namespaced = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];

async function startAttached(options: StartOptions = { under: namespaced, endSignal: "SIGKILL" }) {
  const guest = await startGuest(options);
  const lost = Promise.withResolvers<string>();
  const connection = await guest.open(lost.resolve);
  const recorder = new Recorder();
  await connection.attach(recorder.attachment);
  return {
    guest,
    connection,
    recorder,
    lost: lost.promise,
    async run(token: string, script: string, argv = ["sh", "-c", script]): Promise<string> {
      await connection.spawn({ token, argv, workingDir: "/", environment: { PATH: path } });
      await recorder.ended(token);
      return recorder.text(token) + recorder.text(token, "stderr");
    },
    async [Symbol.asyncDispose]() {
      await connection[Symbol.asyncDispose]();
      await guest[Symbol.asyncDispose]();
    },
  };
}

/** The init's pid outside its namespace: the only child of the program that made it. */
function initPid(guest: RunningGuest): number {
  const isChild = (name: string): boolean => {
    try {
      return Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${name}/stat`, "utf8"))?.[1]) === guest.pid;
    } catch {
      return false;
    }
  };
  return Number(readdirSync("/proc").find((name) => /^\d+$/.test(name) && isChild(name)));
}

test("no signal from inside stops PID 1", async () => {
  await using session = await startAttached();
  const { connection, run } = session;
  const script = "for signal in $(seq 64); do [ $signal = 32 ] || [ $signal = 33 ] || kill -$signal 1; done; echo done";
  assert.match(await run("signals", script), /done\n$/);
  await run("all", "kill -9 -1");
  await connection.ping();
  assert.equal(await run("after", "echo $PPID"), "1\n");
});

test("orphans of a namespace are reaped by its PID 1", async () => {
  await using session = await startAttached();
  assert.equal(await session.run("orphans", "for i in $(seq 30); do (sleep 0.05 &) ; done; exit 3"), "");
  assert.deepEqual(await session.recorder.ended("orphans"), { code: 3 });
  const list = ["sh", "-c", "ps -e -o comm= | sort | uniq -c"];
  await eventually(async () => {
    const seen = await session.run(`list${process.hrtime.bigint()}`, "", list);
    assert.doesNotMatch(seen, /sleep|defunct/);
  });
});

test("PID 1 and its workers cannot be traced, nor their descriptors opened, without the capability for it", async () => {
  await using session = await startAttached();
  // Not in vain: another process of the same user can be traced the same way.
  const attach = `import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
victim = int(sys.argv[1]) or os.fork()
if victim == 0: time.sleep(30)
print(libc.ptrace(16, victim, 0, 0), os.strerror(ctypes.get_errno()), flush=True)
for name in ("fd/3", "exe", "cwd"):
    try: print(os.readlink("/proc/%d/%s" % (victim, name)), flush=True)
    except OSError as error: print(error.strerror, flush=True)
for name in ("mem", "environ", "fd/3"):
    try: open("/proc/%d/%s" % (victim, name)); print("opened", flush=True)
    except OSError as error: print(error.strerror, flush=True)
os._exit(0)`;
  const run = (token: string, victim: number): Promise<string> =>
    session.run(token, "", [
      "setpriv",
      "--bounding-set",
      "-sys_ptrace,-perfmon,-sys_admin",
      "--",
      "python3",
      "-c",
      attach,
      String(victim),
    ]);
  const own = (await run("own", 0)).trim().split("\n");
  assert.equal(own[0], "0 Success");
  assert.ok(own.includes("opened"));
  const init = (await run("init", 1)).trim().split("\n");
  assert.equal(init[0], "-1 Operation not permitted");
  assert.deepEqual(init.slice(1), new Array(6).fill("Permission denied"));
});

test("nobody inside gets hold of PID 1 or of the one that is tried out while it is upgraded", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  const binary = readFileSync(process.env.CATNAP_GUEST_BINARY ?? buildGuest("init"));
  const attack = `import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
own, tries, seen, enough = os.getpid(), 0, set(), False
print("ready", flush=True)
while not os.path.exists("/proc/%d/root/STOP" % own):
    for victim in [1] + [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) > own]:
        tries += 1
        if libc.ptrace(0x4206, victim, 0, 0) == 0: print("traced", victim, flush=True)
        for name in ("mem", "fd/3", "fd/4", "environ"):
            try: os.close(os.open("/proc/%d/%s" % (victim, name), os.O_RDONLY)); print("opened", victim, name, flush=True)
            except OSError: pass
        if victim != 1: seen.add(victim)
    if not enough and tries > 1000 and seen:
        enough = True
        print("tried", flush=True)`.replace("STOP", `${session.guest.dir}/stop`);
  await connection.spawn({
    token: "attack",
    argv: ["setpriv", "--bounding-set", "-sys_ptrace,-perfmon,-sys_admin", "--", "python3", "-c", attack],
    workingDir: "/",
    environment: { PATH: path },
  });
  await eventually(() => assert.match(recorder.text("attack"), /ready/));
  // As often as the attacker needs to meet one on a machine that gives it little time.
  for (let round = 0; round < 100 || (round < 10_000 && !recorder.text("attack").includes("tried")); round++) {
    await connection.upgrade(binary);
  }
  await connection.files.write(`${session.guest.dir}/stop`, Buffer.alloc(0));
  await recorder.ended("attack");
  assert.equal(recorder.text("attack") + recorder.text("attack", "stderr"), "ready\ntried\n");
});

test("a new binary cannot be traced from its very first moment", async () => {
  await using session = await startAttached();
  const program = `${session.guest.dir}/looks`;
  // Asked before it could have done anything about it itself.
  const source = "#include <sys/prctl.h>\nint main(void){return prctl(PR_GET_DUMPABLE)==1?9:8;}";
  execFileSync("musl-gcc", ["-static", "-x", "c", "-", "-o", program], { input: source });
  await assert.rejects(session.connection.upgrade(readFileSync(program)), /ended with code 8/);
});

test("an upgraded PID 1 keeps its powers and its orphans, and signals from inside stay without effect", async () => {
  await using session = await startAttached();
  const { connection, guest, run } = session;
  const powers = (): string | undefined =>
    /CapEff:\s+(\S+)/.exec(readFileSync(`/proc/${initPid(guest)}/status`, "utf8"))?.[1];
  const before = powers();
  const binary = readFileSync(process.env.CATNAP_GUEST_BINARY ?? buildGuest("init"));
  await connection.upgrade(binary);
  assert.equal(powers(), before);
  await run("all", "kill -9 -1; kill -15 1; kill -13 1");
  await connection.ping();
  assert.equal(await run("orphans", "(sleep 0.05 &) ; echo $PPID"), "1\n");
});

test("SIGTERM from outside ends the namespace", async () => {
  await using session = await startAttached();
  await session.connection.spawn({
    token: "stays",
    argv: ["sleep", "60"],
    workingDir: "/",
    environment: { PATH: path },
  });
  process.kill(initPid(session.guest), "SIGTERM");
  assert.match(await session.lost, /closed/);
});

test("when no process can be made, starting and file operations say so and PID 1 goes on", async () => {
  // A limit of the user's, which is not root: root has none.
  const limited = ["setpriv", "--reuid", "54999", "--regid", "54999", "--clear-groups", "prlimit", "--nproc=5"];
  await using session = await startAttached({ under: limited });
  const { connection, recorder } = session;
  const environment = { PATH: path };
  for (let index = 0; index < 4; index++) {
    await connection.spawn({ token: `sleep${index}`, argv: ["sleep", "60"], workingDir: "/", environment });
  }
  const refused = { code: "unprocessable", details: { errno: "EAGAIN" } };
  const notForked = { code: "unprocessable", details: { errno: "EAGAIN", step: "fork" } };
  for (let attempt = 0; attempt < 20; attempt++) {
    await assert.rejects(connection.spawn({ token: "more", argv: ["true"], workingDir: "/", environment }), notForked);
    await assert.rejects(connection.files.stat("/"), refused);
    await assert.rejects(connection.files.write("/tmp/none", Buffer.alloc(1_000_000)), refused);
    await assert.rejects(connection.connect(9), { code: "rate_limited" });
  }
  await connection.ping();
  await connection.signal("sleep0", 9);
  await recorder.ended("sleep0");
  assert.equal((await connection.files.stat("/")).type, "directory");
  for (let index = 1; index < 4; index++) await connection.signal(`sleep${index}`, 9);
});
