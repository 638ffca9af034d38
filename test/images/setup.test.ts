// Set-up: that it does nothing when nothing is missing, survives being killed, waits for another, and leaks nothing of npm.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { createLogger } from "../../src/core/log.ts";
import { runCommand } from "../../src/core/run-command.ts";
import { idRange } from "../../src/host/images/id-range.ts";
import { openImages } from "../../src/host/images/images.ts";
import { eventually } from "../eventually.ts";

const projectRoot = join(import.meta.dirname, "../..");
const setupDir = join(projectRoot, "scripts/setup");
let dir: string;
before(() => {
  dir = mkdtempSync(join(tmpdir(), "catnap-setup-"));
});
after(() => rmSync(dir, { recursive: true, force: true }));

/** Runs a piece of a module of set-up in a process of its own. */
function evaluate(script: string, env: NodeJS.ProcessEnv = process.env): ChildProcess {
  return spawn(process.execPath, ["--input-type=module", "--eval", script], {
    env,
    stdio: ["pipe", "pipe", "inherit"],
  });
}

test("with everything in place, nothing is done", async () => {
  const { stderr } = await runCommand(process.execPath, [join(projectRoot, "scripts/setup.mjs"), "--tests"]);
  assert.match(stderr, /^Set-up: everything is in place \(\d+\.\d s\)\.$/m);
  assert.doesNotMatch(stderr, /\[1\//);
});

test("a set-up that is killed while it builds an image leaves none, and nothing that still builds", async () => {
  const imageDir = join(dir, "killed");
  const setup = spawn(process.execPath, [join(projectRoot, "scripts/setup.mjs")], {
    env: { ...process.env, CATNAP_IMAGE_DIR: imageDir },
    stdio: "ignore",
  });
  const ended = new Promise((resolve) => setup.once("exit", resolve));
  const work = await eventually(() => {
    const [name] = readdirSync(join(imageDir, "work"));
    assert.ok(name !== undefined && existsSync(join(imageDir, "work", name, "rootfs/etc")));
    return name;
  });
  setup.kill("SIGKILL");
  await ended;
  await eventually(() => assert.deepEqual(processesNaming(imageDir), []));
  assert.deepEqual(readdirSync(join(imageDir, "rootfs")), []);
  assert.deepEqual(readdirSync(join(imageDir, "platform")), []);
  assert.equal(readFileSync("/proc/self/mountinfo", "utf8").includes(imageDir), false);
  const log = createLogger("silent");
  await using images = await openImages({
    imageDir,
    log,
    insecureRegistries: [],
    idRangeStart: idRange.start,
    maxImageBytes: 1,
  });
  assert.deepEqual(images.list(), []);
  const { abandonedWorkDirs } = (await import(join(setupDir, "work-dir.mjs"))) as {
    abandonedWorkDirs(dir: string): string[];
  };
  assert.deepEqual(abandonedWorkDirs(imageDir), [join(imageDir, "work", work)]);
});

function processesNaming(text: string): string[] {
  return readdirSync("/proc").filter((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return false;
    try {
      return readFileSync(`/proc/${name}/cmdline`, "latin1").includes(text);
    } catch {
      return false;
    }
  });
}

test("two set-ups take turns, and a dead one holds nobody up", async (t) => {
  const place = join(dir, "locked");
  writeFileSync(place, "");
  const script = `import { withLock } from ${JSON.stringify(join(setupDir, "lock.mjs"))};
    await withLock(${JSON.stringify(place)}, async () => { console.log("mine"); await new Promise((done) => process.stdin.on("data", done)); });
    process.exit();`;
  const first = evaluate(script);
  const second = evaluate(script);
  t.after(() => {
    first.kill("SIGKILL");
    second.kill("SIGKILL");
  });
  const holders: ChildProcess[] = [];
  for (const child of [first, second]) child.stdout!.once("data", () => holders.push(child));
  await eventually(() => assert.equal(holders.length, 1));
  holders[0]!.kill("SIGKILL");
  await eventually(() => assert.equal(holders.length, 2));
  holders[1]!.stdin!.write("end\n");
  await eventually(() => assert.equal(holders[1]!.exitCode, 0));
});

describe("npm's packages are current", () => {
  const cases: [string, object, object | undefined, boolean][] = [
    ["when npm recorded what the lock file says", { a: { version: "1" } }, { a: { version: "1" } }, true],
    ["not when a version differs", { a: { version: "2" } }, { a: { version: "1" } }, false],
    ["not when one is missing", { a: { version: "1" }, b: { version: "1" } }, { a: { version: "1" } }, false],
    [
      "when only one for other machines is missing",
      { a: { version: "1" }, b: { version: "1", optional: true } },
      { a: { version: "1" } },
      true,
    ],
    ["not when an installation never ended", { a: { version: "1" } }, undefined, false],
  ];
  for (const [index, [when, locked, installed, expected]] of cases.entries()) {
    test(when, async () => {
      const project = join(dir, `project-${index}`);
      mkdirSync(join(project, "node_modules/.bin"), { recursive: true });
      writeFileSync(join(project, "node_modules/.bin/node"), "");
      writeFileSync(join(project, "package-lock.json"), JSON.stringify({ packages: locked }));
      if (installed !== undefined) {
        writeFileSync(join(project, "node_modules/.package-lock.json"), JSON.stringify({ packages: installed }));
      }
      const { modulesAreCurrent } = (await import(join(setupDir, "node-modules.mjs"))) as {
        modulesAreCurrent(dir: string): boolean;
      };
      assert.equal(modulesAreCurrent(project), expected);
    });
  }
});

test("programs of set-up see no trace of the npm that started it", async () => {
  const { plainEnvironment } = (await import(join(setupDir, "command.mjs"))) as {
    plainEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv;
  };
  const leaked = {
    npm_package_name: "catnap",
    npm_lifecycle_event: "start",
    npm_config_local_prefix: "/x",
    npm_config_prefix: "/y",
  };
  const kept = { HOME: "/root", npm_config_registry: "http://npm.example", HTTPS_PROXY: "http://proxy.example" };
  const plain = plainEnvironment({ ...leaked, ...kept, INIT_CWD: "/x", PATH: "/x/node_modules/.bin:/usr/bin:/bin" });
  assert.deepEqual(plain, { ...kept, PATH: "/usr/bin:/bin" });
});
