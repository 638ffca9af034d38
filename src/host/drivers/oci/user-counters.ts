// Bounds what one sandbox takes of the machine's inotify objects, which the kernel counts per owner and all sandboxes have the same one.
import { readFileSync, writeFileSync } from "node:fs";
import type { Programs } from "./programs.ts";

/** Per sandbox, and how many sandboxes at their limit the machine has room for. */
const limits = [
  { name: "inotify_instances", perSandbox: 1_024, machine: 1_048_576 },
  { name: "inotify_watches", perSandbox: 65_536, machine: 16_777_216 },
] as const;

/** Writes the limits of the sandbox's user namespace; only a process that has entered it may. */
export async function boundUserCounters(
  programs: Programs,
  id: string,
  pid: number,
  signal: AbortSignal,
): Promise<void> {
  await Promise.all(
    limits.map(({ name, perSandbox }) => {
      const enter = ["--target", String(pid), "--user", "tee", `/proc/sys/user/max_${name}`];
      return programs.run("nsenter", enter, { id, input: String(perSandbox), signal });
    }),
  );
}

/** Raises the machine's own limits, which count all sandboxes together; never lowers them. */
export function raiseMachineCounters(): void {
  for (const { name, machine } of limits) {
    const file = `/proc/sys/fs/inotify/max_user_${name.slice("inotify_".length)}`;
    if (Number(readFileSync(file, "utf8")) < machine) writeFileSync(file, String(machine));
  }
}
