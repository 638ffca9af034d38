// Directories for half-made things. A name says which process made it, so that what a dead one left can be told and removed.
// Set-up makes its own in the same form: `<pid>-<start ticks>-<random>`.
import { readFileSync } from "node:fs";
import { mkdtemp, readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "../../core/log.ts";
import { runCommand } from "../../core/run-command.ts";

/** Clock ticks from the machine's start to the process's; with the pid they name one process for good. */
function startTicks(pid: string): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}

/** What names of this process's directories begin with. */
export function processMark(): string {
  return `${process.pid}-${startTicks(String(process.pid))}`;
}

export function makeWorkDir(parent: string): Promise<string> {
  return mkdtemp(join(parent, `${processMark()}-`));
}

/** Removes a tree without following links or entering mounts. Its content may be hostile; nothing of it runs. */
export async function removeTree(path: string): Promise<void> {
  await runCommand("rm", ["-rf", "--one-file-system", "--", path], { timeoutMs: 300_000 });
}

/** What processes that are gone left; what cannot be removed now is met by the next start. */
export async function removeAbandonedWorkDirs(parent: string, log: Logger): Promise<void> {
  for (const name of await readdir(parent)) {
    const [pid = "", ticks] = name.split("-");
    if (ticks !== undefined && startTicks(pid) === ticks) continue;
    const path = join(parent, name);
    await removeTree(path).catch((error: unknown) => log.warn({ path, err: error }, "leftovers could not be removed"));
  }
}
