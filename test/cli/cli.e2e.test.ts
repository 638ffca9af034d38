// The command line on a real platform with real sandboxes: what a person does in the first five minutes, and what scripts rely on.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";
import { type CliRun, cli, projectDir } from "./run-cli.ts";

const dir = mkdtempSync(join(tmpdir(), "cli-e2e-"));
let platform: SpawnedPlatform;
let env: Record<string, string>;

before(async () => {
  platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "1s" });
  env = { CATNAP_URL: platform.url, CATNAP_API_KEY: platform.apiKey };
  assert.equal(
    (await catnap("sandbox", "create", "--name", "dev", "--memory", "1024", "--env", "GREETING=hi")).stdout,
    "dev\n",
  );
});
after(async () => {
  await platform?.[Symbol.asyncDispose]();
  rmSync(dir, { recursive: true });
});

function catnap(...args: string[]): Promise<CliRun> {
  return cli(args, { env });
}

/** The program itself in a process of its own, as a shell starts it. */
function start(
  args: readonly string[],
  more: Record<string, string> = {},
): ChildProcess & { stdoutText(): string; ended: Promise<[number | null]> } {
  const child = spawn(join(projectDir, "bin/catnap"), args, {
    env: { ...process.env, ...env, ...more },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  child.stderr.resume();
  return Object.assign(child, { stdoutText: () => text, ended: once(child, "exit") as Promise<[number | null]> });
}

async function isRunning(command: string): Promise<boolean> {
  return (await catnap("exec", "dev", "--", "pgrep", "-f", `^${command}`)).exitCode === 0;
}

test("output, error output and exit code come back apart", async () => {
  const run = await catnap("exec", "dev", "--", "sh", "-c", "echo out; echo err >&2; exit 7");
  assert.deepEqual([run.exitCode, run.stdout, run.stderr], [7, "out\n", "err\n"]);
});

const codes: [what: string, argv: string[], exitCode: number][] = [
  ["a command that a signal ended", ["sh", "-c", "kill -KILL $$"], 137],
  ["a command that cannot be found", ["no-such-program"], 127],
  ["a file that is no program", ["/etc/passwd"], 126],
];
for (const [what, argv, exitCode] of codes) {
  test(`${what} ends with ${exitCode}`, async () =>
    assert.equal((await catnap("exec", "dev", "--", ...argv)).exitCode, exitCode));
}

test("arguments, directory and variables reach the command as they are", async () => {
  const program =
    "import json, os, sys; print(json.dumps([sys.argv[1:], os.getcwd(), os.environ['GREETING'], os.environ['MINE']]))";
  const args = [
    "--cwd",
    "/tmp",
    "--env",
    "MINE=a b'c$",
    "--",
    "python3",
    "-c",
    program,
    "",
    "a b",
    "$HOME",
    "'",
    "\n",
    "--json",
    "é",
  ];
  const run = await catnap("exec", "dev", ...args);
  assert.deepEqual(JSON.parse(run.stdout), [["", "a b", "$HOME", "'", "\n", "--json", "é"], "/tmp", "hi", "a b'c$"]);
});

test("a missing directory is a failure of 125 that names it", async () => {
  const run = await catnap("exec", "dev", "--cwd", "/not/there", "--", "true");
  assert.equal(run.exitCode, 125);
  assert.match(run.stderr, /\/not\/there/);
});

test("bytes that are no text come through exactly, also to a reader so slow that the log would have moved on", async () => {
  const bytes = 48 * 1024 * 1024;
  const program = `import hashlib, sys
block = bytes(range(256)) * 4096
total = hashlib.sha256()
for _ in range(${bytes} // len(block)):
    sys.stdout.buffer.write(block); total.update(block)
print(total.hexdigest(), file=sys.stderr)`;
  const child = spawn(join(projectDir, "bin/catnap"), ["exec", "dev", "--", "python3", "-c", program], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const said = child.stderr.setEncoding("utf8").toArray();
  const ended = once(child, "exit");
  const ask = "cut -d' ' -f2 /proc/$(pgrep -f ^python3 | head -1)/io | sed -n 2p";
  const written = async () => Number((await catnap("exec", "dev", "--", "sh", "-c", ask)).stdout);
  // Nobody reads yet: the program is held back, so that what it has written stops growing far below the whole.
  let last = 0;
  await eventually(
    async () => {
      const before = last;
      last = await written();
      assert.ok(last > 0 && last === before);
    },
    { intervalMs: 500 },
  );
  assert.ok(last < bytes / 2);
  const hash = createHash("sha256");
  let received = 0;
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
    hash.update(chunk);
    received += chunk.length;
  }
  assert.deepEqual([await ended, received], [[0, null], bytes]);
  assert.equal(`${hash.digest("hex")}\n`, (await said).join(""));
});

test("Ctrl-C ends the command in the sandbox", async () => {
  const child = start(["exec", "dev", "--", "sh", "-c", "echo begun; exec sleep 1001"]);
  await eventually(() => assert.equal(child.stdoutText(), "begun\n"));
  child.kill("SIGINT");
  assert.deepEqual(await child.ended, [130, null]);
  assert.equal(await isRunning("sleep 1001"), false);
});

test("a command that ignores being asked is killed at the timeout", async () => {
  const run = await catnap(
    "exec",
    "dev",
    "--timeout",
    "1s",
    "--",
    "sh",
    "-c",
    'trap "" TERM; while :; do sleep 1002; done',
  );
  assert.equal(run.exitCode, 124);
  assert.equal(await isRunning("sleep 1002"), false);
});

test("a reader that goes away ends the command", async () => {
  const child = start(["exec", "dev", "--", "yes", "spam"]);
  await eventually(() => assert.match(child.stdoutText(), /spam/));
  child.stdout!.destroy();
  assert.deepEqual(await child.ended, [141, null]);
  await eventually(async () => assert.equal(await isRunning("yes spam"), false));
});

test("a sleeping sandbox runs a command like a waking one", async () => {
  await eventually(async () => assert.match((await catnap("sandbox", "get", "dev")).stdout, /STANDBY/));
  assert.equal((await catnap("exec", "dev", "--", "echo", "awake")).stdout, "awake\n");
});

test("run leaves no sandbox, whether the command succeeds, fails or is interrupted", async () => {
  const run = await catnap("run", "--memory", "512", "--env", "A=1", "--", "sh", "-c", "echo $A; exit 4");
  assert.deepEqual([run.exitCode, run.stdout, run.stderr], [4, "1\n", ""]);
  const child = start(["run", "--", "sh", "-c", "echo begun; exec sleep 1003"]);
  await eventually(() => assert.equal(child.stdoutText(), "begun\n"));
  child.kill("SIGINT");
  assert.deepEqual(await child.ended, [130, null]);
  assert.equal((await catnap("sandbox", "list", "--quiet")).stdout, "dev\n");
});

test("an image nobody knows is refused with its reason", async () => {
  const run = await catnap("sandbox", "create", "--image", "blaxel/no-such-image", "--json");
  assert.equal(run.exitCode, 1);
  assert.equal(JSON.parse(run.stderr).code, "INVALID_IMAGE");
});

test("a wrong key ends with 4", async () => {
  const run = await cli(["sandbox", "list"], { env: { ...env, CATNAP_API_KEY: "wrong" } });
  assert.equal(run.exitCode, 4);
});

const sizes = { empty: 0, small: 1_000, "of one request": 6 * 1024 * 1024, "of many parts": 80 * 1024 * 1024 };
for (const [name, size] of Object.entries(sizes)) {
  test(`a file, ${name}, goes there and back unchanged, with its permissions`, async () => {
    const source = join(dir, `file ${name}`);
    writeFileSync(source, randomBytes(size));
    chmodSync(source, 0o750);
    const there = `/tmp/copies/é ${name}`;
    assert.deepEqual(await outcome("cp", source, `dev:${there}`), [0, ""]);
    const sum = createHash("sha256").update(readFileSync(source)).digest("hex");
    const seen = await catnap("exec", "dev", "--", "sh", "-c", 'sha256sum < "$1"; stat -c %a "$1"', "sh", there);
    assert.equal(seen.stdout, `${sum}  -\n750\n`);
    const back = join(dir, `back ${name}`);
    assert.deepEqual(await outcome("cp", `dev:${there}`, back), [0, ""]);
    assert.ok(readFileSync(back).equals(readFileSync(source)));
    assert.equal(statSync(back).mode & 0o777, 0o750);
  });
}

async function outcome(...args: string[]): Promise<[number, string]> {
  const { exitCode, stderr } = await catnap(...args);
  return [exitCode, stderr];
}

test("a directory goes there with links as they are, and comes back with what can be had as files", async () => {
  const source = join(dir, "tree");
  mkdirSync(join(source, "sub", "deeper"), { recursive: true });
  mkdirSync(join(source, "nothing in it"));
  writeFileSync(join(source, "run.sh"), "#!/bin/sh\n", { mode: 0o755 });
  writeFileSync(join(source, "sub", "deeper", "%2F ü"), "x");
  symlinkSync("../run.sh", join(source, "sub", "to-file"));
  symlinkSync("sub", join(source, "to-directory"));
  symlinkSync("/nowhere", join(source, "to-nothing"));
  assert.deepEqual(await outcome("cp", source, "dev:/srv/"), [0, ""]);
  const found = await catnap("exec", "dev", "--cwd", "/srv/tree", "--", "find", ".", "-printf", "%m %P -> %l\\n");
  assert.deepEqual(found.stdout.trimEnd().replaceAll(/ +$/gm, "").split("\n").sort(), [
    "644 sub/deeper/%2F ü ->",
    "755  ->",
    "755 nothing in it ->",
    "755 run.sh ->",
    "755 sub ->",
    "755 sub/deeper ->",
    "777 sub/to-file -> ../run.sh",
    "777 to-directory -> sub",
    "777 to-nothing -> /nowhere",
  ]);
  const back = join(dir, "tree-back");
  const run = await catnap("cp", "--json", "dev:/srv/tree", back);
  const { files, skipped } = JSON.parse(run.stdout) as { files: number; skipped: string[] };
  assert.deepEqual([run.exitCode, files, skipped.sort()], [0, 3, ["to-directory", "to-nothing"]]);
  assert.deepEqual(readdirSync(back).sort(), ["nothing in it", "run.sh", "sub"]);
  assert.equal(readFileSync(join(back, "sub", "deeper", "%2F ü"), "utf8"), "x");
  assert.ok(lstatSync(join(back, "sub", "to-file")).isFile());
});

test("the content of a directory goes into one that exists", async () => {
  const source = join(dir, "content");
  mkdirSync(source);
  writeFileSync(join(source, "one"), "1");
  assert.deepEqual(await outcome("cp", `${source}/.`, "dev:/srv"), [0, ""]);
  assert.equal((await catnap("exec", "dev", "--", "cat", "/srv/one")).stdout, "1");
});

test("copying what is not there ends with 3", async () => {
  assert.equal((await catnap("cp", "dev:/not/there", dir)).exitCode, 3);
});

test("terminal prints an address at which a browser has a shell, and which ends", async () => {
  const run = await catnap("sandbox", "terminal", "dev", "--ttl", "10m", "--json");
  assert.equal(run.exitCode, 0, run.stderr);
  const { url, preview, expiresAt } = JSON.parse(run.stdout);
  assert.ok(Date.parse(expiresAt) - Date.now() <= 600_000);
  const page = await fetch(url);
  assert.deepEqual([page.status, page.headers.get("content-type")], [200, "text/html; charset=utf-8"]);
  assert.equal((await fetch(url.slice(0, -1))).status, 401);
  await platform.call("DELETE", `/v0/sandboxes/dev/previews/${preview}`);
  assert.equal((await fetch(url)).status, 404);
  const plain = await catnap("sandbox", "terminal", "dev");
  assert.match(plain.stdout, /^http\S+\/terminal\?bl_preview_token=pt_[a-z0-9]{50}\n$/);
});

test("delete removes sandboxes and says which", async () => {
  await catnap("sandbox", "create", "--name", "gone");
  const run = await catnap("sandbox", "delete", "--yes", "gone", "never-was");
  assert.deepEqual([run.exitCode, run.stdout], [3, "gone\n"]);
  assert.equal((await catnap("exec", "gone", "--", "true")).exitCode, 125);
});
