// Ends an instance: from any state, half-made ones too, to nothing left but its writable layer, or to nothing at all.
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../../../core/errors.ts";
import { unmountBelow, unmountRoot } from "./mounts.ts";
import type { OciParts } from "./parts.ts";
import { instancePaths } from "./paths.ts";
import { endStrays } from "./strays.ts";

const removeTimeoutMs = 120_000;

/** Kills every process and removes cgroups, mounts, device and the runtime's record. The files stay. */
export async function endProcesses(parts: OciParts, id: string, dir: string): Promise<void> {
  const { cgroups, programs, network, runtime } = parts;
  const paths = instancePaths(parts.paths, id, dir);
  const wasMade = existsSync(paths.madeFile);
  // First of all: should this daemon die now, the next one must not take what is dying for a running instance.
  rmSync(paths.madeFile, { force: true });
  // Without the file some program of an unfinished start may still be at work and add what is removed here.
  if (!wasMade) await endStrays(programs, id);
  await cgroups.killAll(id);
  await Promise.all([
    network.detachDead(id),
    unmountRoot(programs, id, paths),
    existsSync(join(parts.paths.runtimeRoot, id)) ? runtime.forget(id) : undefined,
  ]);
  await cgroups.remove(id);
  for (const file of [paths.socket, `${paths.socket}.new`]) rmSync(file, { force: true });
}

/** Removes the directory with everything in it, and nothing beside it. */
export async function removeDir(parts: OciParts, id: string, dir: string): Promise<void> {
  if (!existsSync(dir)) return;
  await unmountBelow(parts.programs, id, dir);
  // The program walks by descriptors: a sandbox may nest directories deeper than any path reaches.
  await parts.programs.run("rm", ["-rf", "--one-file-system", "--", dir], { id, timeoutMs: removeTimeoutMs });
  if (existsSync(dir)) throw new AppError("internal", "The instance's directory could not be removed.");
}
