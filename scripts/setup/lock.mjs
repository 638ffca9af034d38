// Keeps two set-ups out of each other's way. The kernel holds the lock (flock on something that exists anyway), so a dead set-up holds none.
import { spawnSync } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { SetupError } from "./command.mjs";

const waitMaxS = 900;

/**
 * @template T
 * @param {string} path File or directory that stands for what is being changed.
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withLock(path, work) {
  const file = openSync(path, "r");
  try {
    if (take(file, ["--timeout", String(waitMaxS)]) !== 0) {
      throw new SetupError(
        `Another set-up has been working on ${path} for ${waitMaxS / 60} minutes.`,
        "End it, then try again.",
      );
    }
    return await work();
  } finally {
    closeSync(file);
  }
}

/**
 * @param {number} file
 * @param {string[]} how
 */
function take(file, how) {
  const result = spawnSync("flock", ["--exclusive", ...how, "3"], { stdio: ["ignore", "ignore", "ignore", file] });
  if (result.error !== undefined)
    throw new SetupError(`flock could not be started: ${result.error.message}`, "Install util-linux.");
  return result.status;
}
