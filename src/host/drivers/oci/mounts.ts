// The host's own mounts of an instance: its root file system while it starts. The instance keeps a copy of the mount in its own
// namespace, so the host's one goes as soon as the init runs and cannot be left behind.
import { mkdirSync, readFileSync, rmdirSync } from "node:fs";
import { relative } from "node:path";
import { AppError } from "../../../core/errors.ts";
import type { InstancePaths } from "./paths.ts";
import type { Programs } from "./programs.ts";

export type RootMount = { id: string; paths: InstancePaths; layerDir: string; imageRoot: string };

/** Image below, then the small layer of names, then what the sandbox writes. No device nodes: an image may bring some. */
export async function mountRoot(programs: Programs, mount: RootMount, signal: AbortSignal): Promise<void> {
  const { id, paths, layerDir, imageRoot } = mount;
  mkdirSync(paths.root, { recursive: true, mode: 0o711 });
  // Relative, because the sandbox reads these options in its /proc/mounts and learns nothing of the host's directories by them.
  const lower = [layerDir, imageRoot].map((dir) => escapePath(relative(paths.driverDir, dir))).join(":");
  const options = `nodev,nosuid,lowerdir=${lower},upperdir=upper,workdir=work`;
  await programs.run("mount", ["-t", "overlay", "-o", options, "catnap", paths.root], {
    id,
    cwd: paths.driverDir,
    signal,
  });
}

/** Takes every mount at or below the path off the host; does nothing when there is none. */
export async function unmountBelow(programs: Programs, id: string, path: string): Promise<void> {
  for (const mountPoint of mountPointsBelow(path).reverse()) {
    await programs.run("umount", ["--lazy", "--no-canonicalize", mountPoint], { id }).catch((error: unknown) => {
      if (mountPointsBelow(path).includes(mountPoint)) throw error;
    });
  }
  const left = mountPointsBelow(path);
  if (left.length > 0) throw new AppError("internal", `A mount of the instance could not be removed: ${left[0]}`);
}

/** Unmounts the root and removes its mount point. */
export async function unmountRoot(programs: Programs, id: string, paths: InstancePaths): Promise<void> {
  await unmountBelow(programs, id, paths.root);
  try {
    rmdirSync(paths.root);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}

/** In the order they were mounted. */
export function mountPointsBelow(path: string): string[] {
  return parseMountPoints(readFileSync("/proc/self/mountinfo", "utf8")).filter(
    (mountPoint) => mountPoint === path || mountPoint.startsWith(`${path}/`),
  );
}

export function parseMountPoints(mountinfo: string): string[] {
  return mountinfo
    .split("\n")
    .filter(Boolean)
    .map((line) =>
      line.split(" ")[4]!.replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8))),
    );
}

/** Overlay separates layers by colons and options by commas. */
function escapePath(path: string): string {
  return path.replace(/[\\:,]/g, "\\$&");
}
