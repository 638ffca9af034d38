// `npm start`, `npm test` and `npm run bench` begin here: installs and builds what is missing, and nothing when nothing is.
// Runs on the machine's own Node (20 or newer), before node_modules exists. Options: --tests adds what the tests need,
// --modules-only stops after npm's packages, --rebuild-images makes the platform images anew from today's Debian.
// CATNAP_DATA_DIR and CATNAP_IMAGE_DIR say where images go; CATNAP_SKIP_PACKAGES=1 leaves Debian's packages to the operator.
import { existsSync, readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { run, SetupError } from "./setup/command.mjs";
import * as packages from "./setup/debian-packages.mjs";
import { withLock } from "./setup/lock.mjs";
import { installModules, modulesAreCurrent } from "./setup/node-modules.mjs";
import { isCurrent, platformImageNames, readDefinition } from "./setup/platform-image.mjs";
import { buildPlatformImage } from "./setup/platform-image-build.mjs";
import { Progress } from "./setup/progress.mjs";
import { abandonedWorkDirs, makeImageDir } from "./setup/work-dir.mjs";

/**
 * @typedef {object} Step
 * @property {string} title
 * @property {() => boolean} isDone
 * @property {(detail: (text: string) => void) => Promise<void>} work
 * @property {string} [lockPath] What stands for the thing being changed, against a second set-up at the same time.
 */

const projectDir = dirname(dirname(fileURLToPath(import.meta.url)));
const dataDir = process.env.CATNAP_DATA_DIR || "/var/lib/catnap";
const imageDir = process.env.CATNAP_IMAGE_DIR || join(dataDir, "images");
const projectLock = join(projectDir, "package-lock.json");

function requireMachine() {
  if (process.platform !== "linux") {
    throw new SetupError("Sandboxes are Linux machines, and this is not Linux.", "Run it on Debian 12.");
  }
  if (process.getuid?.() !== 0) {
    throw new SetupError(
      "Making isolated machines needs root.",
      "Become root, for example with `sudo -i`, then try again.",
    );
  }
}

/** @returns {Step} */
function modulesStep() {
  return {
    title: "npm packages",
    isDone: () => modulesAreCurrent(projectDir),
    work: (detail) => installModules(projectDir, detail),
    lockPath: projectLock,
  };
}

/**
 * @param {string[]} wanted
 * @returns {Step}
 */
function packagesStep(wanted) {
  const missing = process.env.CATNAP_SKIP_PACKAGES === "1" ? [] : packages.missingPackages(wanted);
  return {
    title: `Debian packages: ${missing.join(" ")}`,
    isDone: () => missing.length === 0 || packages.missingPackages(missing).length === 0,
    work: (detail) => packages.installPackages(missing, detail),
    lockPath: "/var/lib/dpkg",
  };
}

/** @returns {Step} */
function testToolsStep() {
  const toolsDir = join(imageDir, "test-tools");
  return {
    title: "programs for tests",
    isDone: () => packages.missingTestTools(toolsDir).length === 0,
    work: (detail) => packages.unpackTestTools(toolsDir, detail),
    lockPath: "/var/lib/dpkg",
  };
}

/** @returns {Step} */
function guestStep() {
  const builder = join(projectDir, "scripts/build-guest.mjs");
  const binary = join(projectDir, "guest/build/catnap-init");
  const isDone = () => {
    if (!existsSync(builder)) return true;
    if (!existsSync(binary)) return false;
    const builtAtMs = statSync(binary).mtimeMs;
    const sources = readdirSync(join(projectDir, "guest")).filter((name) => /\.[ch]$/.test(name));
    return [builder, ...sources.map((name) => join(projectDir, "guest", name))].every(
      (path) => statSync(path).mtimeMs <= builtAtMs,
    );
  };
  return {
    title: "the sandboxes' init",
    isDone,
    work: (detail) => run(process.execPath, [builder], { cwd: projectDir, onLine: detail }),
    lockPath: projectLock,
  };
}

/**
 * @param {string} name
 * @param {boolean} rebuild
 * @returns {Step}
 */
function imageStep(name, rebuild) {
  return {
    title: `image ${name}`,
    isDone: () => !rebuild && isCurrent({ projectDir, imageDir, name }),
    async work(onLine) {
      for (const path of abandonedWorkDirs(imageDir)) await run("rm", ["-rf", "--one-file-system", "--", path]);
      await buildPlatformImage({ definition: readDefinition(projectDir, name), imageDir, projectDir, onLine });
    },
    lockPath: imageDir,
  };
}

/**
 * Checks without a lock, so that a start with nothing to do costs nothing; looks again under the lock before doing anything.
 * @param {Step[]} steps
 * @param {Progress} progress
 */
async function perform(steps, progress) {
  for (const { title, isDone, work, lockPath } of steps) {
    await progress.step(title, async (detail) => {
      if (lockPath === undefined) return await work(detail);
      detail("waiting for another set-up");
      await withLock(lockPath, async () => (isDone() ? undefined : await work(detail)));
    });
  }
}

/** @param {string[]} options */
async function main(options) {
  const startedAt = performance.now();
  const modules = modulesStep();
  if (options.includes("--modules-only")) {
    if (!modules.isDone()) await perform([modules], new Progress(1));
    return;
  }
  requireMachine();
  const tests = options.includes("--tests");
  const rebuild = options.includes("--rebuild-images");
  const wanted = [...packages.platformPackages, ...(tests ? packages.testPackages : [])];
  makeImageDir(imageDir);
  /** @type {Step[]} */
  const steps = [packagesStep(wanted), modules, guestStep(), ...(tests ? [testToolsStep()] : [])];
  for (const name of platformImageNames(projectDir)) steps.push(imageStep(name, rebuild));
  const due = steps.filter((step) => !step.isDone());
  if (due.length > 0) {
    console.error(
      `Setting up catnap: ${due.length} of ${steps.length} steps to do; the first time takes a few minutes.`,
    );
    await perform(due, new Progress(due.length));
  }
  console.error(`Set-up: everything is in place (${((performance.now() - startedAt) / 1000).toFixed(1)} s).`);
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  console.error(`\nSet-up stopped: ${error.message}`);
  if (error.remedy !== undefined) console.error(`\nWhat to do: ${error.remedy}`);
  process.exitCode = 1;
}
