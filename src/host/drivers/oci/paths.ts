// Where the driver keeps things: per instance below its own directory, per daemon below /run, where nothing survives a reboot.
import { createHash } from "node:crypto";
import { join, resolve } from "node:path";

export type DaemonPaths = {
  /** `[a-z0-9]{8}` of the data directory: names what daemons of one machine must not share. */
  tag: string;
  instancesDir: string;
  runDir: string;
  /** The runtime's own records of what it started. */
  runtimeRoot: string;
  /** Where root file systems are mounted while an instance starts. */
  rootsDir: string;
  /** Small read-only layers between images and writable layers. */
  layersDir: string;
};

export type InstancePaths = {
  driverDir: string;
  upperDir: string;
  workDir: string;
  /** What the runtime reads and writes; made anew for every start, since one that was killed leaves files it then trips over. */
  bundleDir: string;
  socket: string;
  runtimeLog: string;
  pidFile: string;
  /** Exists when the instance was made completely. */
  madeFile: string;
  root: string;
};

export function daemonPaths(givenDir: string): DaemonPaths {
  const dataDir = resolve(givenDir);
  const digest = createHash("sha256").update(dataDir).digest("hex").slice(0, 16);
  const tag = BigInt(`0x${digest}`).toString(36).slice(0, 8).padEnd(8, "0");
  const runDir = join("/run/catnap", tag);
  return {
    tag,
    instancesDir: join(dataDir, "instances"),
    runDir,
    runtimeRoot: join(runDir, "runtime"),
    rootsDir: join(runDir, "roots"),
    layersDir: join(dataDir, "driver", "layers"),
  };
}

/** Name of the cgroup above this daemon's sandboxes. What is found below it and nobody owns is destroyed, so no other daemon may share it. */
export function groupParent({ tag }: DaemonPaths, name: string): string {
  return `${name}-${tag}`;
}

export function instancePaths(daemon: DaemonPaths, id: string, dir: string): InstancePaths {
  const driverDir = join(dir, "driver");
  const bundleDir = join(driverDir, "bundle");
  return {
    driverDir,
    upperDir: join(driverDir, "upper"),
    workDir: join(driverDir, "work"),
    bundleDir,
    socket: join(driverDir, "guest.sock"),
    runtimeLog: join(bundleDir, "runtime.log"),
    pidFile: join(bundleDir, "pid"),
    madeFile: join(driverDir, "made"),
    root: join(daemon.rootsDir, id),
  };
}
