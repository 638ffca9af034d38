// What catnap needs of a machine, one check each: what was found, whether it will do, and the command that mends it.
import { join } from "node:path";
import { formatBytes } from "../format.ts";
import type { Probes } from "./probes.ts";

/** `note` is worth knowing but keeps nothing from working. */
export type CheckStatus = "ok" | "note" | "problem";
export type CheckResult = { name: string; status: CheckStatus; found: string; remedy?: string };

export type Installation = {
  dataDir: string;
  imageDir: string;
  projectDir: string;
  ociRuntime: string;
  host: string;
  port: number;
};

type Check = (probes: Probes, installation: Installation) => CheckResult | Promise<CheckResult>;

const gib = 1024 ** 3;
const diskNeededBytes = 2 * gib;
const diskWishedBytes = 5 * gib;
const memoryNeededBytes = 0.5 * gib;
const memoryWishedBytes = 1.5 * gib;
const nodeMajorNeeded = 24;

const checkUser: Check = ({ userId }) =>
  userId === 0
    ? ok("user", "root")
    : problem("user", `user id ${userId}; isolating sandboxes needs root`, "sudo -i, then start again");

const checkNode: Check = ({ nodeVersion }) =>
  Number(nodeVersion.split(".")[0]) >= nodeMajorNeeded
    ? ok("node", nodeVersion)
    : problem("node", `${nodeVersion}; ${nodeMajorNeeded} is needed`, "npm start, or bin/catnap: both bring their own");

const checkUserNamespaces: Check = ({ readFile }) => {
  const max = Number(readFile("/proc/sys/user/max_user_namespaces") ?? 0);
  return max > 0
    ? ok("user namespaces", `up to ${max}`)
    : problem("user namespaces", "switched off", "sysctl -w user.max_user_namespaces=15000");
};

const checkOverlay: Check = ({ readFile }) =>
  /^\s*(?:nodev\s+)?overlay$/m.test(readFile("/proc/filesystems") ?? "")
    ? ok("overlayfs", "available")
    : problem("overlayfs", "not loaded", "modprobe overlay");

const checkSeccomp: Check = ({ readFile }) =>
  (readFile("/proc/sys/kernel/seccomp/actions_avail") ?? "").includes("errno")
    ? ok("seccomp", "available")
    : problem("seccomp", "not in this kernel", "use a kernel with CONFIG_SECCOMP_FILTER, such as Debian's");

const checkCgroups: Check = ({ readFile, stat }) => {
  const unified = readFile("/sys/fs/cgroup/cgroup.controllers");
  const needed = ["cpu", "memory", "pids"];
  if (unified !== undefined) {
    const missing = needed.filter((name) => !unified.split(/\s+/).includes(name));
    return missing.length === 0
      ? ok("cgroups", "version 2")
      : problem(
          "cgroups",
          `version 2 without ${missing.join(", ")}`,
          "start the kernel with cgroup_enable=memory, or enable them in the parent's cgroup.subtree_control",
        );
  }
  const mode = stat("/sys/fs/cgroup/unified") === undefined ? "version 1" : "versions 1 and 2 together";
  const missing = [...needed, "freezer"].filter((name) => stat(`/sys/fs/cgroup/${name}`)?.isDirectory !== true);
  return missing.length === 0
    ? ok("cgroups", mode)
    : problem(
        "cgroups",
        `no ${missing.join(", ")} controller`,
        "mount the cgroup hierarchies (systemd does) or boot with systemd.unified_cgroup_hierarchy=1",
      );
};

const checkNftables: Check = async ({ findProgram, tryProgram, userId }) => {
  const nft = findProgram("nft");
  if (nft === undefined) return problem("nftables", "the program nft is missing", "apt-get install --yes nftables");
  if (userId !== 0) return { name: "nftables", status: "note", found: "only root can tell whether the kernel has it" };
  const failure = await tryProgram(nft, ["list", "tables"]);
  return failure === undefined
    ? ok("nftables", "works")
    : problem("nftables", `does not work: ${failure}`, "modprobe nf_tables");
};

const checkForwarding: Check = ({ readFile }) =>
  (readFile("/proc/sys/net/ipv4/ip_forward") ?? "").trim() === "1"
    ? ok("ip forwarding", "on")
    : { name: "ip forwarding", status: "note", found: "off; the platform switches it on when it starts" };

/** Debian package of each program that running sandboxes needs. */
const programs = {
  skopeo: "skopeo",
  umoci: "umoci",
  bwrap: "bubblewrap",
  ip: "iproute2",
  nsenter: "util-linux",
  mount: "mount",
  tar: "tar",
};

const checkRuntime: Check = ({ findProgram, isExecutable }, { ociRuntime }) => {
  const path = ociRuntime.includes("/") ? (isExecutable(ociRuntime) ? ociRuntime : undefined) : findProgram(ociRuntime);
  return path !== undefined
    ? ok("OCI runtime", path)
    : problem(
        "OCI runtime",
        `${ociRuntime} is missing`,
        `apt-get install --yes ${ociRuntime.includes("/") ? "runc" : ociRuntime}`,
      );
};

const checkPrograms: Check = ({ findProgram }) => {
  const missing = Object.entries(programs).filter(([name]) => findProgram(name) === undefined);
  const packages = [...new Set(missing.map(([, name]) => name))];
  return missing.length === 0
    ? ok("programs", Object.keys(programs).join(", "))
    : problem(
        "programs",
        `missing: ${missing.map(([name]) => name).join(", ")}`,
        `apt-get install --yes ${packages.join(" ")}`,
      );
};

const checkGuest: Check = ({ isExecutable }, { projectDir }) =>
  isExecutable(join(projectDir, "guest/build/catnap-init"))
    ? ok("sandboxes' init", "built")
    : problem("sandboxes' init", "not built", "npm run setup");

const checkImage: Check = ({ readFile, stat }, { imageDir }) => {
  const remedy = "npm run setup";
  const text = readFile(join(imageDir, "platform", "base-image.json"));
  if (text === undefined) return problem("base image", "not built", remedy);
  const digest = /"digest":\s*"([0-9a-f]+)"/.exec(text)?.[1] ?? "";
  return digest !== "" && stat(join(imageDir, "rootfs", digest))?.isDirectory === true
    ? ok("base image", digest.slice(0, 12))
    : problem("base image", "its files are gone", remedy);
};

const checkDisk: Check = ({ freeDiskBytes }, { dataDir }) => {
  const free = freeDiskBytes(dataDir);
  if (free === undefined) return { name: "disk", status: "note", found: `cannot tell how much is free at ${dataDir}` };
  const found = `${formatBytes(free)} free at ${dataDir}`;
  if (free < diskNeededBytes)
    return problem(
      "disk",
      found,
      `free some, or choose another --data-dir: ${formatBytes(diskNeededBytes)} are needed`,
    );
  return free < diskWishedBytes
    ? { name: "disk", status: "note", found: `${found}; little for many sandboxes` }
    : ok("disk", found);
};

const checkMemory: Check = ({ readFile }) => {
  const match = /^MemAvailable:\s+(\d+) kB$/m.exec(readFile("/proc/meminfo") ?? "");
  if (match === null) return { name: "memory", status: "note", found: "cannot tell how much is free" };
  const available = Number(match[1]) * 1024;
  const found = `${formatBytes(available)} available`;
  if (available < memoryNeededBytes)
    return problem("memory", found, `free some: ${formatBytes(memoryNeededBytes)} are needed`);
  return available < memoryWishedBytes
    ? { name: "memory", status: "note", found: `${found}; little for several sandboxes` }
    : ok("memory", found);
};

const checkPort: Check = async ({ portUser }, { host, port }) => {
  const user = await portUser(host, port);
  const address = `${host}:${port}`;
  if (user === "free") return ok("address", `${address} is free`);
  return user === "catnap"
    ? ok("address", `a catnap answers on ${address}`)
    : problem("address", `another program has ${address}`, `stop it, or: catnap up --listen ${host}:${port + 100}`);
};

const checkDataDir: Check = ({ stat, userId }, { dataDir }) => {
  const info = stat(dataDir);
  if (info === undefined) return ok("data directory", `${dataDir} is made at the first start`);
  if (!info.isDirectory)
    return problem("data directory", `${dataDir} is not a directory`, "choose another with --data-dir");
  if (info.uid !== userId && userId === 0)
    return problem("data directory", `${dataDir} belongs to user ${info.uid}`, `chown root: ${dataDir}`);
  return (info.mode & 0o022) === 0
    ? ok("data directory", dataDir)
    : problem("data directory", `others may write to ${dataDir}`, `chmod go-w ${dataDir}`);
};

const checkCredentials: Check = ({ stat }, { dataDir }) => {
  const path = join(dataDir, "credentials.json");
  const info = stat(path);
  if (info === undefined) return { name: "credentials", status: "note", found: "made at the first start" };
  return (info.mode & 0o077) === 0
    ? ok("credentials", path)
    : problem("credentials", `others may read ${path}`, `chmod 600 ${path}`);
};

const checkKvm: Check = ({ stat }) => ({
  name: "kvm",
  status: "note",
  found: stat("/dev/kvm") === undefined ? "not here; it is not needed" : "/dev/kvm is here; it is not needed",
});

const checks: readonly Check[] = [
  checkUser,
  checkNode,
  checkUserNamespaces,
  checkOverlay,
  checkSeccomp,
  checkCgroups,
  checkNftables,
  checkForwarding,
  checkRuntime,
  checkPrograms,
  checkGuest,
  checkImage,
  checkDisk,
  checkMemory,
  checkPort,
  checkDataDir,
  checkCredentials,
  checkKvm,
];

export function examine(probes: Probes, installation: Installation): Promise<CheckResult[]> {
  return Promise.all(checks.map((check) => check(probes, installation)));
}

function ok(name: string, found: string): CheckResult {
  return { name, status: "ok", found };
}

function problem(name: string, found: string, remedy: string): CheckResult {
  return { name, status: "problem", found, remedy };
}
