// Directories for half-made images. Their names say which process makes them, so that what a dead one left can be told and removed.
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Clock ticks between the machine's start and the process's: with the pid they name one process for good.
 * @param {number | string} pid
 * @returns {string | undefined}
 */
function startTicks(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}

/**
 * Makes the image directory's layout when it is missing. Only root may enter: what images hold includes set-id programs and
 * file capabilities of strangers, which must be out of reach of the machine's other users.
 * @param {string} imageDir
 */
export function makeImageDir(imageDir) {
  mkdirSync(imageDir, { recursive: true, mode: 0o700 });
  for (const name of ["rootfs", "platform", "references", "work"]) {
    mkdirSync(join(imageDir, name), { recursive: true, mode: 0o700 });
  }
  chmodSync(imageDir, 0o700);
}

/** @param {string} imageDir */
export function makeWorkDir(imageDir) {
  makeImageDir(imageDir);
  return mkdtempSync(join(imageDir, "work", `${process.pid}-${startTicks(process.pid)}-`));
}

/**
 * Work directories whose maker no longer runs.
 * @param {string} imageDir
 * @returns {string[]}
 */
export function abandonedWorkDirs(imageDir) {
  return readdirSync(join(imageDir, "work"))
    .filter((name) => {
      const [pid, ticks] = name.split("-");
      return pid === undefined || ticks === undefined || startTicks(pid) !== ticks;
    })
    .map((name) => join(imageDir, "work", name));
}
