// Has a v2 hierarchy hand its controllers down to the groups of sandboxes: a group has the files of a limit only when the one above allows it.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../../../../core/errors.ts";
import { readCgroupFile, readPids, writeCgroupFile } from "./files.ts";

const switchFile = "cgroup.subtree_control";
/** Where the processes go that share a container with the daemon, itself included; no sandboxes' parent is called so. */
export const outsidersName = "catnap-outsiders";
/** What is forked meanwhile appears where its parent was. */
const moveRounds = 20;

/**
 * Throws `unavailable` when the kernel refuses. In a container the hierarchy begins at the container's own group, with its processes in
 * it, and a group with processes hands nothing down: they are moved into a group beside the sandboxes' first. `write` is for tests.
 */
export function delegateControllers(
  mountPoint: string,
  parent: string,
  names: readonly string[],
  write: typeof writeCgroupFile = writeCgroupFile,
): void {
  for (const group of [mountPoint, join(mountPoint, parent)]) {
    const enabled = (readCgroupFile(group, switchFile) ?? "").trim().split(" ");
    const missing = names.filter((name) => !enabled.includes(name));
    if (missing.length === 0) continue;
    const enable = (): void => {
      if (write(group, switchFile, missing.map((name) => `+${name}`).join(" "))) return;
      throw new Error("The group above does not hand them down.");
    };
    try {
      try {
        enable();
      } catch (error) {
        if (group !== mountPoint || codeOf(error) !== "EBUSY") throw error;
        moveProcesses(mountPoint, join(mountPoint, outsidersName));
        enable();
      }
    } catch (cause) {
      const message = `The control group ${group} does not hand down ${missing.join(", ")}: ${reason(cause)}`;
      throw new AppError("unavailable", message, { cause });
    }
  }
}

/** What they may use stays as it is: the limits of the container are those of the group above both. */
export function moveProcesses(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (let round = 0; round < moveRounds; round++) {
    // 0 stands for a process of another pid namespace; written, it would mean this one.
    const pids = readPids(from).filter((pid) => pid > 0);
    if (pids.length === 0) return;
    for (const pid of pids) moveProcess(to, pid);
  }
}

function moveProcess(to: string, pid: number): void {
  try {
    writeCgroupFile(to, "cgroup.procs", String(pid));
  } catch (error) {
    // It ended meanwhile.
    if (codeOf(error) !== "ESRCH") throw error;
  }
}

/** The kernel's own answer, which the error of a refused write has as its cause. */
function codeOf(error: unknown): string | undefined {
  return ((error as Error).cause as NodeJS.ErrnoException | undefined)?.code;
}

function reason(error: unknown): string {
  return codeOf(error) ?? (error as Error).message;
}
