// Bounds what one sandbox takes of things the kernel counts per user or per machine: all sandboxes are the same user to it.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import type { Programs } from "./programs.ts";

/** Limits of each sandbox's user namespace, of one value so that one program writes them. */
const perSandboxFiles = ["/proc/sys/user/max_inotify_instances", "/proc/sys/user/max_inotify_watches"];
export const inotifyPerSandbox = 65_536;

/**
 * What the machine must have room for. The memory behind each of these is charged to the sandbox that uses it, so the counters
 * need only be out of one sandbox's reach; process numbers are bounded per sandbox by its own limit.
 */
const perMachine: Readonly<Record<string, number>> = {
  "/proc/sys/fs/inotify/max_user_instances": 16_777_216,
  "/proc/sys/fs/inotify/max_user_watches": 16_777_216,
  "/proc/sys/fs/epoll/max_user_watches": 1_073_741_824,
  "/proc/sys/fs/pipe-user-pages-soft": 16_777_216,
  "/proc/sys/kernel/pid_max": 4_194_304,
};

/** Writes the limits of the sandbox's user namespace; only a process that has entered it may. */
export async function boundUserCounters(
  programs: Programs,
  id: string,
  pid: number,
  signal: AbortSignal,
): Promise<void> {
  const enter = ["--target", String(pid), "--user", "tee", ...perSandboxFiles];
  await programs.run("nsenter", enter, { id, input: String(inotifyPerSandbox), signal });
}

/** Raises the machine's own limits, never lowers them; returns the files that could not be written. */
export function raiseMachineCounters(): string[] {
  return Object.entries(perMachine).flatMap(([file, value]) => {
    try {
      // Zero means without limit where it is accepted at all.
      const current = existsSync(file) ? Number(readFileSync(file, "utf8")) : 0;
      if (current !== 0 && current < value) writeFileSync(file, String(value));
      return [];
    } catch {
      return [file];
    }
  });
}
