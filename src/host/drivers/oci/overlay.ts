// The overlay file system: a module on most kernels, which nothing has loaded yet on a machine that has just booted.
import { readFileSync } from "node:fs";
import type { Programs } from "./programs.ts";

export type FileSystemSource = {
  /** The text of /proc/filesystems. */
  read(): string;
  load(): Promise<unknown>;
};

/** Loads it when it is not there; false when the kernel has none. */
export async function hasOverlay({ read, load }: FileSystemSource): Promise<boolean> {
  const isThere = (): boolean => /^(?:nodev)?\toverlay$/m.test(read());
  if (isThere()) return true;
  await load().catch(() => undefined);
  return isThere();
}

export function machineFileSystems(programs: Programs): FileSystemSource {
  return {
    read: () => readFileSync("/proc/filesystems", "utf8"),
    load: () => programs.run("modprobe", ["--quiet", "overlay"]),
  };
}
