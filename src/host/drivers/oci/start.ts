// Starts an instance on its writable layer: root file system, runtime, network and limits, in that order where one needs another.
import { chmodSync, chownSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { writeFileAtomic } from "../../../core/atomic-file.ts";
import { AppError } from "../../../core/errors.ts";
import type { InstanceHandle, InstanceSpec } from "../driver.ts";
import { listenAt } from "../listener.ts";
import { bundleText } from "./bundle.ts";
import { memoryBytes } from "./cgroup/limits.ts";
import { mountRoot, unmountRoot } from "./mounts.ts";
import type { OciParts } from "./parts.ts";
import { type InstancePaths, instancePaths } from "./paths.ts";
import { ensureRootLayer } from "./root-layer.ts";
import { boundUserCounters } from "./user-counters.ts";

/** Nothing of an earlier start is left. Rejects half-way when something fails or `signal` aborts; the caller cleans up. */
export async function startInstance(parts: OciParts, spec: InstanceSpec, signal: AbortSignal): Promise<InstanceHandle> {
  const { programs, network, cgroups, runtime, log } = parts;
  const { id, limits } = spec;
  const phases = startPhases();
  const paths = instancePaths(parts.paths, id, spec.dir);
  const layerDir = prepareFiles(parts, spec, paths);
  phases.end("files");

  await using listener = await listenAt(paths.socket);
  await mountRoot(programs, { id, paths, layerDir, imageRoot: spec.imageRoot }, signal);
  phases.end("mount");
  const pid = await runtime.start(id, paths, listener.fd, signal);
  phases.end("runtime");

  await Promise.all([
    network.attach(id, pid, signal),
    unmountRoot(programs, id, paths),
    boundUserCounters(programs, id, pid, signal),
  ]).catch((cause: unknown) => {
    // What is left of a dead process until somebody reaps it has no program any more.
    if (existsSync(`/proc/${pid}/exe`)) throw cause;
    throw new AppError("internal", "The init ended as soon as it was started.", { cause });
  });
  cgroups.adopt(id, pid);
  cgroups.setLimits(id, limits);
  phases.end("network");
  signal.throwIfAborted();
  writeFileAtomic(paths.madeFile, JSON.stringify({ pid, imageRoot: spec.imageRoot }));
  log.debug({ instance: id, pid, phasesMs: phases.result }, "instance started");
  return { id, guestSocketPath: paths.socket };
}

/** Everything the runtime reads. The writable layer keeps what is in it. */
function prepareFiles(parts: OciParts, spec: InstanceSpec, paths: InstancePaths): string {
  const { subIdStart, guestBinary, searchBinary, cgroups, network } = parts;
  rmSync(paths.bundleDir, { recursive: true, force: true });
  for (const dir of [paths.driverDir, paths.upperDir, paths.workDir, paths.bundleDir]) {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
  }
  // The layer's own directory is the sandbox's `/`.
  chownSync(paths.upperDir, subIdStart, subIdStart);
  chmodSync(paths.upperDir, 0o755);
  const { hostname, limits } = spec;
  const bundle = bundleText({
    root: paths.root,
    hostname,
    guestBinary,
    searchBinary,
    subIdStart,
    cgroupsPath: cgroups.runtimePath(spec.id),
    memoryBytes: memoryBytes(limits),
    processesMax: limits.processesMax,
  });
  writeFileSync(`${paths.bundleDir}/config.json`, bundle, { mode: 0o600 });
  return ensureRootLayer(parts.paths.layersDir, { hostname, resolvers: network.resolvers, subIdStart });
}

function startPhases(): { result: Record<string, number>; end(name: string): void } {
  const result: Record<string, number> = {};
  let since = performance.now();
  return {
    result,
    end(name) {
      const now = performance.now();
      result[name] = Math.round((now - since) * 10) / 10;
      since = now;
    },
  };
}
