// Brings node_modules to what package-lock.json says, and only when it is not there already.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { run, SetupError } from "./command.mjs";

/**
 * npm writes its own record of what it installed last, so an installation that was interrupted has none.
 * @param {string} projectDir
 */
export function modulesAreCurrent(projectDir) {
  const wanted = readPackages(join(projectDir, "package-lock.json"));
  const installed = readPackages(join(projectDir, "node_modules/.package-lock.json"));
  if (wanted === undefined || installed === undefined) return false;
  for (const [path, { version, optional }] of Object.entries(wanted)) {
    if (path === "") continue;
    const found = installed[path];
    if (found === undefined ? !optional : found.version !== version) return false;
  }
  // Optional packages are missing on purpose for other machines, but not the one with this machine's Node.
  return existsSync(join(projectDir, "node_modules/.bin/node"));
}

/**
 * @param {string} path
 * @returns {Record<string, { version?: string, optional?: boolean }> | undefined}
 */
function readPackages(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8")).packages;
  } catch {
    return undefined;
  }
}

/**
 * No package of ours needs its install script, so none is run.
 * @param {string} projectDir
 * @param {(text: string) => void} onLine
 */
export async function installModules(projectDir, onLine) {
  try {
    await run("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], { cwd: projectDir, onLine });
  } catch (error) {
    const remedy = "Check that this machine reaches its npm registry (`npm ping` says), then try again.";
    throw new SetupError(/** @type {Error} */ (error).message, remedy);
  }
}
