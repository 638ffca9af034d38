// Programs on a terminal of their own: full-screen programs, job control, sizes and hang-ups.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { GuestConnection } from "../../src/host/guest/guest.ts";
import { eventually } from "../eventually.ts";
import { startAttached } from "./start-attached.ts";

const environment = { PATH: "/usr/local/bin:/usr/bin:/bin", TERM: "xterm-256color", PS1: "> ", HOME: "/tmp" };
const terminal = { columns: 100, rows: 30 };

function onTerminal(token: string, ...argv: string[]) {
  return { token, argv, workingDir: "/", environment, terminal };
}

async function type(connection: GuestConnection, token: string, text: string): Promise<void> {
  await connection.writeStdin(token, Buffer.from(text));
}

test("a program finds a terminal on all three descriptors, which controls its session", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  const script =
    "test -t 0 && test -t 1 && test -t 2 && echo all; stty size; echo err >&2; echo here > /dev/tty; ps -o tpgid=,pgid= -p $$";
  await connection.spawn(onTerminal("looks", "sh", "-c", script));
  assert.deepEqual(await recorder.ended("looks"), { code: 0 });
  const lines = recorder.text("looks").split("\r\n");
  assert.deepEqual(lines.slice(0, 4), ["all", "30 100", "err", "here"]);
  // In the foreground of its terminal.
  const [foreground, group] = lines[4]!.trim().split(/\s+/);
  assert.equal(foreground, group);
  assert.equal(recorder.length("looks", "stderr"), 0);
});

test("1 MB of output of a terminal comes whole before the end", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  for (const [token, count] of [
    ["short", 5_000],
    ["long", 150_000],
  ] as const) {
    await connection.spawn(onTerminal(token, "sh", "-c", `seq 1 ${count}; exit 7`));
    assert.deepEqual(await recorder.ended(token), { code: 7 });
    assert.ok(recorder.text(token) === Array.from({ length: count }, (_, index) => `${index + 1}\r\n`).join(""));
  }
});

test("a shell edits, answers and runs jobs; keys signal whoever is in the foreground", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  await connection.spawn(onTerminal("shell", "bash", "--norc", "-i"));
  await type(connection, "shell", "echo $((6 * 7))x\n");
  await eventually(() => assert.match(recorder.text("shell"), /42x\r\n/));
  await type(connection, "shell", "cat -E\n");
  await type(connection, "shell", "typed\n");
  // What cat says, not the echo: it is in the foreground by then.
  await eventually(() => assert.match(recorder.text("shell"), /typed\$\r\n/));
  // Control-C ends cat, not the shell.
  await type(connection, "shell", "\x03");
  await eventually(() => assert.match(recorder.text("shell"), /\^C\r\n.*> $/s));
  await type(connection, "shell", "sleep 60\n");
  await eventually(() => assert.match(recorder.text("shell"), /sleep 60\r\n/));
  // Control-Z stops it, and the shell has it as a job.
  await eventually(async () => {
    await type(connection, "shell", "\x1a");
    assert.match(recorder.text("shell"), /Stopped\s+sleep 60/);
  });
  // A shell with a job that is not gone yet does not exit.
  await type(connection, "shell", "kill -9 %1; while kill -0 %1; do sleep 0.01; done; echo killed $?\n");
  await eventually(() => assert.match(recorder.text("shell"), /killed 0/));
  await type(connection, "shell", "exit 5\n");
  assert.deepEqual(await recorder.ended("shell"), { code: 5 });
});

test("a full-screen program takes its size, draws, reads keys and is told of a new size", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  const script = `import curses
def main(screen):
    while True:
        screen.erase()
        screen.addstr(0, 0, "size %d %d" % screen.getmaxyx())
        screen.refresh()
        key = screen.getch()
        if key == curses.KEY_UP: screen.addstr(1, 0, "went up"); screen.refresh(); screen.getch(); return
curses.wrapper(main)`;
  await connection.spawn(onTerminal("screen", "python3", "-c", script));
  await eventually(() => assert.match(recorder.text("screen"), /size 30 100/));
  await connection.resizeTerminal("screen", { columns: 81, rows: 20 });
  await eventually(() => assert.match(recorder.text("screen"), /20 81/));
  await type(connection, "screen", "\x1bOA");
  await eventually(() => assert.match(recorder.text("screen"), /went up/));
  await type(connection, "screen", "q");
  assert.deepEqual(await recorder.ended("screen"), { code: 0 });
  for (const size of [
    { columns: 0, rows: 24 },
    { columns: 80, rows: 65_536 },
    { columns: 1.5, rows: 24 },
  ]) {
    await assert.rejects(connection.resizeTerminal("screen", size), { code: "unprocessable" });
    await assert.rejects(connection.spawn({ ...onTerminal("bad", "true"), terminal: size }), { code: "unprocessable" });
  }
  await assert.rejects(connection.resizeTerminal("screen", terminal), { code: "not_found" });
});

test("closing hangs up: SIGHUP for the program, and what it wrote before stays", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  await connection.spawn(onTerminal("hung", "sh", "-c", "echo before; exec sleep 60"));
  await eventually(() => assert.equal(recorder.text("hung"), "before\r\n"));
  await connection.closeStdin("hung");
  assert.deepEqual(await recorder.ended("hung"), { signal: 1 });
  assert.equal(recorder.text("hung"), "before\r\n");
});

test("what a program leaves on its terminal delays no end and is hung up on", async () => {
  await using session = await startAttached();
  const { guest, connection, recorder } = session;
  const script = `trap '' HUP; (while echo spam; do :; done; echo gone > ${guest.dir}/gone) & exit 3`;
  await connection.spawn(onTerminal("leaves", "sh", "-c", script));
  assert.deepEqual(await recorder.ended("leaves"), { code: 3 });
  await eventually(async () => assert.equal((await connection.files.stat(`${guest.dir}/gone`)).sizeBytes, 5));
  await connection.ping();
});

test("a program that lets go of its terminal for a moment is not hung up on", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  const script = "exec < /dev/null > /dev/null 2>&1; sleep 0.1; echo back > /dev/tty; exit 4";
  await connection.spawn(onTerminal("back", "sh", "-c", script));
  assert.deepEqual(await recorder.ended("back"), { code: 4 });
  assert.equal(recorder.text("back"), "back\r\n");
});

test("a terminal nobody reads blocks its program alone, and its end comes once it is read", async () => {
  await using session = await startAttached();
  const { connection, recorder } = session;
  const gate = Promise.withResolvers<void>();
  recorder.gates.set("blocked", gate.promise);
  await connection.spawn(onTerminal("blocked", "seq", "1", "100000"));
  for (let other = 0; other < 10; other++) {
    await connection.spawn(onTerminal(`other${other}`, "seq", "1", "2000"));
    assert.deepEqual(await recorder.ended(`other${other}`), { code: 0 });
  }
  assert.equal(recorder.length("blocked"), 0);
  gate.resolve();
  assert.deepEqual(await recorder.ended("blocked"), { code: 0 });
  assert.equal(recorder.length("blocked"), 688_895);
});
