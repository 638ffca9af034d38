// Programs the guest starts: what they are given, how their ends are told, and what becomes of those nobody waits for.
import assert from "node:assert/strict";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { test } from "node:test";
import type { GuestConnection } from "../../src/host/guest/guest.ts";
import { eventually } from "../eventually.ts";
import { Recorder } from "./recorder.ts";
import { startAttached } from "./start-attached.ts";
import { startGuest } from "./start-guest.ts";

const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

function shell(token: string, script: string, environment: Record<string, string> = {}) {
  return { token, argv: ["sh", "-c", script], workingDir: "/", environment: { PATH: path, ...environment } };
}

async function run(connection: GuestConnection, recorder: Recorder, token: string, script: string) {
  await connection.spawn(shell(token, script));
  return recorder.ended(token);
}

/** Pids of the living or unreaped children of a process. */
function childrenOf(pid: number): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        return Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${name}/stat`, "utf8"))?.[1]) === pid;
      } catch {
        return false;
      }
    })
    .map(Number);
}

test("exit codes and signals are told as they were", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  for (const code of [0, 1, 7, 126, 127, 128, 137, 255]) {
    assert.deepEqual(await run(connection, recorder, `code${code}`, `exit ${code}`), { code });
  }
  for (const signal of [1, 2, 6, 9, 11, 15]) {
    assert.deepEqual(await run(connection, recorder, `signal${signal}`, `kill -${signal} $$`), { signal });
  }
});

test("output comes whole, in order and before the end", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  await run(connection, recorder, "short", "echo out; echo err >&2; printf end");
  assert.equal(recorder.text("short"), "out\nend");
  assert.equal(recorder.text("short", "stderr"), "err\n");
  await run(connection, recorder, "long", "seq 1 200000");
  assert.equal(recorder.text("long"), Array.from({ length: 200_000 }, (_, index) => `${index + 1}\n`).join(""));
});

test("a program that cannot start is an error with the kernel's reason", async () => {
  await using session = await startAttached();
  const { connection } = session;
  const spawn = (argv: string[], workingDir = "/") =>
    connection.spawn({ token: "none", argv, workingDir, environment: { PATH: path } });
  const refused = (errno: string) => ({ name: "AppError", code: "unprocessable", details: { errno } });
  await assert.rejects(spawn(["no-such-program"]), refused("ENOENT"));
  await assert.rejects(spawn(["/no/such/program"]), refused("ENOENT"));
  await assert.rejects(spawn(["/etc"]), refused("EACCES"));
  await assert.rejects(spawn(["/etc/passwd"]), refused("EACCES"));
  await assert.rejects(spawn(["sh"], "/no/such/directory"), refused("ENOENT"));
  await assert.rejects(spawn(["sh"], "/etc/passwd"), refused("ENOTDIR"));
  await assert.rejects(spawn(["sh"], "relative"), refused("EINVAL"));
  await assert.rejects(spawn(["sh", "a\0b"]), refused("EINVAL"));
  await assert.rejects(spawn([]), refused("EINVAL"));
  await assert.rejects(spawn(["sh", "x".repeat(200_000)]), refused("E2BIG"));
  await assert.rejects(spawn(["sh", ...new Array<string>(20).fill("x".repeat(100_000))]), refused("E2BIG"));
  assert.deepEqual(await run(connection, session.recorder, "none", "exit 3"), { code: 3 });
});

test("arguments and environment arrive unchanged, also long ones", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  const long = "ä".repeat(60_000);
  const environment = Object.fromEntries(
    Array.from({ length: 500 }, (_, index) => [`NAME${index}`, `${index} = "x"\n`]),
  );
  await connection.spawn({
    token: "a",
    argv: ["printf", "%s", long, "", "x y"],
    workingDir: "/",
    environment: { PATH: path },
  });
  await recorder.ended("a");
  assert.equal(recorder.text("a"), `${long}x y`);
  await connection.spawn({ token: "b", argv: ["/usr/bin/env", "-0"], workingDir: "/", environment });
  await recorder.ended("b");
  const variables = recorder.text("b").split("\0").slice(0, -1);
  assert.deepEqual(
    variables.sort(),
    Object.entries(environment)
      .map(([name, value]) => `${name}=${value}`)
      .sort(),
  );
});

test("a program gets a clean place to run in", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  const script =
    "pwd; umask; ulimit -n; readlink /proc/self/fd/0; ps -o pgid=,sid= -p $$; echo $$; cat /proc/self/oom_score_adj";
  await connection.spawn({ ...shell("place", script), workingDir: "/tmp" });
  await recorder.ended("place");
  const lines = recorder.text("place").trim().split("\n");
  const own = Number(readFileSync("/proc/self/oom_score_adj", "utf8"));
  const limit = /Max open files\s+(\d+)/.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
  const group = lines[4]!.trim().split(/\s+/);
  assert.deepEqual(lines.slice(0, 4), ["/tmp", "0022", limit, "/dev/null"]);
  assert.deepEqual(group, [lines[5], lines[5]]);
  assert.equal(Number(lines[6]), Math.min(own + 300, 1000));
  await connection.spawn({ ...shell("descriptors", ""), argv: ["ls", "/proc/self/fd"] });
  await recorder.ended("descriptors");
  // The last one is the directory being listed.
  assert.equal(recorder.text("descriptors"), "0\n1\n2\n3\n");
  await connection.spawn({ ...shell("signals", ""), argv: ["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"] });
  await recorder.ended("signals");
  assert.match(recorder.text("signals"), /^SigBlk:\s0+\nSigIgn:\s0+\n$/);
});

test("200 programs at once all end as they should", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  const tokens = Array.from({ length: 200 }, (_, index) => `many${index}`);
  await Promise.all(tokens.map((token, index) => connection.spawn(shell(token, `echo ${token}; exit ${index % 256}`))));
  for (const [index, token] of tokens.entries()) {
    assert.deepEqual(await recorder.ended(token), { code: index % 256 });
    assert.equal(recorder.text(token), `${token}\n`);
  }
  assert.deepEqual(childrenOf(session.guest.pid), []);
});

test("a token is one process, however often it is asked for", async () => {
  await using session = await startAttached();
  const { guest, connection, recorder } = session;
  const request = shell("once", "echo started; sleep 60");
  const [first, second] = await Promise.all([connection.spawn(request), connection.spawn(request)]);
  const third = await connection.spawn(request);
  assert.equal(first.pid, second.pid);
  assert.equal(first.pid, third.pid);
  assert.deepEqual(childrenOf(guest.pid), [first.pid]);
  await connection.signal("once", 9);
  assert.deepEqual(await recorder.ended("once"), { signal: 9 });
  await eventually(() => assert.rejects(connection.signal("once", 9), { code: "not_found" }));
});

test("a signal reaches the whole group, and only while the process lives", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  await connection.spawn(shell("group", "sleep 60 & echo $!; wait"));
  await eventually(() => assert.match(recorder.text("group"), /^\d+\n$/));
  const sleeper = Number(recorder.text("group"));
  await connection.signal("group", 15);
  assert.deepEqual(await recorder.ended("group"), { signal: 15 });
  await eventually(() => assert.throws(() => readlinkSync(`/proc/${sleeper}/cwd`)));
  await assert.rejects(connection.signal("group", 15), { code: "not_found", details: { errno: "ESRCH" } });
  await assert.rejects(connection.signal("never", 15), { code: "not_found" });
});

test("orphans are reaped and steal no exit code", async () => {
  await using session = await startAttached();
  const { guest, connection, recorder } = session;
  const script = "for i in $(seq 50); do (sh -c 'exit 9' &) ; done; exit 4";
  assert.deepEqual(await run(connection, recorder, "parent", script), { code: 4 });
  await eventually(() => assert.deepEqual(childrenOf(guest.pid), []));
});

test("a daemon that keeps its parent's output delays no end and goes on writing", async () => {
  await using session = await startAttached();
  const { guest, connection, recorder } = session;
  const mark = `${guest.dir}/mark`;
  // Writes more than a pipe holds after its parent has ended.
  const daemon = `while [ ! -e ${mark} ]; do sleep 0.02; done; head -c 1000000 /dev/zero && echo fine > ${mark}.done; exec sleep 60`;
  assert.deepEqual(await run(connection, recorder, "leaves", `echo before; (${daemon}) & exit 5`), { code: 5 });
  assert.equal(recorder.text("leaves"), "before\n");
  await connection.files.write(mark, Buffer.alloc(0));
  await eventually(() => assert.equal(readFileSync(`${mark}.done`, "utf8"), "fine\n"));
  assert.equal(recorder.text("leaves"), "before\n");
});

test("SIGTERM of the init ends everything it started", async () => {
  const guest = await startGuest();
  let lost = "";
  await using connection = await guest.open((reason) => {
    lost = reason;
  });
  const recorder = new Recorder();
  await connection.attach(recorder.attachment);
  await connection.spawn(shell("stays", "(sleep 60 & echo $!); trap '' TERM; while :; do sleep 1; done"));
  await eventually(() => assert.match(recorder.text("stays"), /^\d+\n$/));
  const orphan = Number(recorder.text("stays"));
  await guest[Symbol.asyncDispose]();
  assert.throws(() => readlinkSync(`/proc/${orphan}/cwd`));
  await eventually(() => assert.match(lost, /closed the control connection/));
  await assert.rejects(connection.spawn(shell("late", "true")), { code: "unavailable" });
});
