// The description of an instance that an OCI runtime starts (config.json of the OCI runtime specification).
import { readFileSync } from "node:fs";
import { release } from "node:os";
import { capabilities, maskedPaths, readonlyPaths, sysctls } from "./privileges.ts";
import { initPath, searchPath } from "./root-layer.ts";
import { seccompProfile } from "./seccomp.ts";

export type BundleOptions = {
  root: string;
  hostname: string;
  guestBinary: string;
  searchBinary: string;
  subIdStart: number;
  cgroupsPath: string;
  memoryBytes: number;
  processesMax: number;
};

/** Size of the id range; id 65534, nobody, is inside it. */
const subIdCount = 65_536;
const openFilesMax = 65_536;
/** More than any machine runs. */
const allProcesses = 4_194_304;

export function bundleText(options: BundleOptions): string {
  const { root, hostname, subIdStart, cgroupsPath } = options;
  const idMappings = [{ containerID: 0, hostID: subIdStart, size: subIdCount }];
  return JSON.stringify({
    ociVersion: "1.0.2",
    process: {
      terminal: false,
      user: { uid: 0, gid: 0 },
      args: [initPath],
      env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
      cwd: "/",
      // None ambient or inheritable: they would survive the drop to another user.
      capabilities: { bounding: capabilities, effective: capabilities, permitted: capabilities },
      noNewPrivileges: true,
      rlimits: rlimits(options.processesMax),
    },
    root: { path: root, readonly: false },
    hostname,
    mounts: mounts(options),
    linux: {
      uidMappings: idMappings,
      gidMappings: idMappings,
      // The network namespace is made inside the user namespace and dies with the last process.
      namespaces: ["user", "pid", "mount", "network", "ipc", "uts", "cgroup"].map((type) => ({ type })),
      cgroupsPath,
      resources: resources(options),
      seccomp: seccompProfile(process.arch),
      sysctl: sysctls,
      maskedPaths,
      readonlyPaths,
      rootfsPropagation: "private",
    },
  });
}

/** The CPU limit is missing on purpose: it would slow the runtime itself and is set once the init runs. */
function resources({ memoryBytes, processesMax }: BundleOptions): object {
  return {
    devices: [{ allow: false, access: "rwm" }],
    memory: { limit: memoryBytes, swap: memoryBytes },
    pids: { limit: processesMax },
  };
}

function mounts({ guestBinary, searchBinary }: BundleOptions): object[] {
  const plain = ["nosuid", "noexec", "nodev"];
  const program = ["bind", "ro", "nosuid", "nodev"];
  return [
    { destination: "/proc", type: "proc", source: "proc", options: plain },
    { destination: "/dev", type: "tmpfs", source: "tmpfs", options: ["nosuid", "mode=755", "size=64k"] },
    {
      destination: "/dev/pts",
      type: "devpts",
      source: "devpts",
      options: ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
    },
    // Charged to the sandbox's memory limit, which is the real bound and may grow after the start.
    { destination: "/dev/shm", type: "tmpfs", source: "shm", options: [...plain, "mode=1777", "size=1g"] },
    { destination: "/dev/mqueue", type: "mqueue", source: "mqueue", options: plain },
    { destination: "/sys", type: "sysfs", source: "sysfs", options: [...plain, "ro"] },
    { destination: "/sys/fs/cgroup", type: "cgroup", source: "cgroup", options: [...plain, "relatime", "ro"] },
    { destination: initPath, type: "bind", source: guestBinary, options: program },
    { destination: searchPath, type: "bind", source: searchBinary, options: program },
  ];
}

const isCountedPerSandbox = kernelIsAtLeast(5, 14);

function rlimits(processesMax: number): object[] {
  const openFiles = Math.min(openFilesMax, ownLimit("Max open files"));
  const hard = mostProcesses();
  return [
    // The init raises the soft limit for itself and leaves it to programs.
    ...(isCountedPerSandbox ? [{ type: "RLIMIT_NPROC", soft: processesForPrograms(processesMax), hard }] : []),
    { type: "RLIMIT_NOFILE", soft: openFiles, hard: openFiles },
    { type: "RLIMIT_CORE", soft: 0, hard: 0 },
  ];
}

/** Raising it further needs a privilege that a daemon in a container may lack. */
function ownLimit(name: "Max open files" | "Max processes"): number {
  const line = readFileSync("/proc/self/limits", "utf8").match(new RegExp(`^${name}\\s+\\S+\\s+(\\d+)`, "m"));
  return line === null ? Number.POSITIVE_INFINITY : Number(line[1]);
}

/** How many processes a sandbox has when its programs are refused another one; its init may fork up to `processesMax`. */
export function processesForPrograms(processesMax: number): number {
  if (!isCountedPerSandbox) return processesMax;
  return Math.min(processesMax - reservedProcesses(processesMax), mostProcesses());
}

let ownMost: number | undefined;

/** Read once: it is asked whenever a program fails. */
function mostProcesses(): number {
  ownMost ??= ownLimit("Max processes");
  return Math.min(allProcesses, ownMost);
}

/** What programs may not take of a sandbox's processes, so that its init can still work on files and start what ends the others. */
export function reservedProcesses(processesMax: number): number {
  return Math.min(64, processesMax >> 3);
}

/** Earlier kernels count a user's processes over all sandboxes: a limit would be shared by all of them. */
function kernelIsAtLeast(major: number, minor: number): boolean {
  const [ownMajor = 0, ownMinor = 0] = release()
    .split(".")
    .map((part) => Number.parseInt(part, 10));
  return ownMajor > major || (ownMajor === major && ownMinor >= minor);
}
