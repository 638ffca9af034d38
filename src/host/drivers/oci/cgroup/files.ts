// Reads and writes the small files of a cgroup; a group that is gone is an answer, not a failure.
import { closeSync, constants, openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../../../../core/errors.ts";

/** The file's text, or undefined when it or its group is not there. */
export function readCgroupFile(group: string, name: string): string | undefined {
  try {
    return readFileSync(join(group, name), "utf8");
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  }
}

/** Writes in one system call; false when the file or its group is not there. Throws `conflict` when the kernel refuses the value. */
export function writeCgroupFile(group: string, name: string, value: string): boolean {
  let file: number;
  try {
    // Not created when missing: cgroup directories take no files of ours, a test's plain directory would.
    file = openSync(join(group, name), constants.O_WRONLY);
  } catch (error) {
    if (isGone(error)) return false;
    throw error;
  }
  try {
    writeSync(file, value);
    return true;
  } catch (error) {
    if (isGone(error)) return false;
    throw new AppError("conflict", `The kernel refused ${value} for ${name}.`, { cause: error });
  } finally {
    closeSync(file);
  }
}

/** Throws `unavailable` when the file is not there: a limit that nothing holds must not be taken for one. */
export function setCgroupLimit(group: string, name: string, value: number | string): void {
  if (writeCgroupFile(group, name, String(value))) return;
  throw new AppError("unavailable", `The instance's control group has no ${name}.`);
}

/** A number from a file of one number or of `name number` lines; `max` and what is missing are undefined. */
export function readCgroupNumber(group: string, name: string, key?: string): number | undefined {
  const text = readCgroupFile(group, name);
  const found = key === undefined ? text : text?.split("\n").find((line) => line.startsWith(`${key} `));
  const value = Number.parseInt(key === undefined ? (found ?? "") : (found?.slice(key.length) ?? ""), 10);
  return Number.isNaN(value) ? undefined : value;
}

export function readPids(group: string): number[] {
  return (readCgroupFile(group, "cgroup.procs") ?? "").split("\n").filter(Boolean).map(Number);
}

/** Names of the groups below, or nothing when it is not there. */
export function listGroups(group: string): string[] {
  try {
    return readdirSync(group, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name);
  } catch (error) {
    if (isGone(error)) return [];
    throw error;
  }
}

/** ENODEV is what the kernel answers on a file of a group that is being removed. */
export function isGone(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ENOENT" || code === "ENODEV" || code === "ENOTDIR";
}
