// Finds and ends programs that an earlier daemon started for an instance and that outlived it, e.g. a runtime half-way through.
import { readdirSync, readFileSync } from "node:fs";
import { AppError } from "../../../core/errors.ts";
import { waitUntil } from "../wait-until.ts";
import { markName, type Programs } from "./programs.ts";

const endTimeoutMs = 5_000;

/** Resolves when no program works for the instance any more. Processes inside it carry no mark. */
export async function endStrays(programs: Programs, id: string): Promise<void> {
  const mark = `${markName}=${programs.mark(id)}`;
  const ended = await waitUntil(
    () => {
      const pids = findMarked(mark);
      for (const pid of pids) kill(pid);
      return pids.length === 0;
    },
    { timeoutMs: endTimeoutMs },
  );
  if (!ended) throw new AppError("timeout", "A program that worked for the instance did not end in time.");
}

/** The environment a process was started with is read by root only, and is empty for one that has ended. */
function findMarked(mark: string): number[] {
  const pids: number[] = [];
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
    try {
      if (readFileSync(`/proc/${name}/environ`, "latin1").split("\0").includes(mark)) pids.push(Number(name));
    } catch {
      // It ended meanwhile, or is a kernel thread.
    }
  }
  return pids;
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
