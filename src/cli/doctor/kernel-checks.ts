// What catnap needs of the machine's user, Node and kernel.
import { type Check, note, ok, problem } from "./check.ts";

const nodeMajorNeeded = 24;
/** Debian's of the release before the one that catnap is made for; nothing older was ever tried. */
const kernelExpected = { major: 5, minor: 10 };

export const checkUser: Check = ({ userId }) =>
  userId === 0
    ? ok("user", "root")
    : problem("user", `user id ${userId}; isolating sandboxes needs root`, "sudo -i, then start again");

export const checkNode: Check = ({ nodeVersion }) =>
  Number(nodeVersion.split(".")[0]) >= nodeMajorNeeded
    ? ok("node", nodeVersion)
    : problem("node", `${nodeVersion}; ${nodeMajorNeeded} is needed`, "npm start, or bin/catnap: both bring their own");

export const checkUserNamespaces: Check = ({ readFile }) => {
  const max = Number(readFile("/proc/sys/user/max_user_namespaces") ?? 0);
  return max > 0
    ? ok("user namespaces", `up to ${max}`)
    : problem("user namespaces", "switched off", "sysctl -w user.max_user_namespaces=15000");
};

export const checkOverlay: Check = async ({ readFile, findProgram, runProgram }) => {
  if (/^\s*(?:nodev\s+)?overlay$/m.test(readFile("/proc/filesystems") ?? "")) return ok("overlayfs", "available");
  const modprobe = findProgram("modprobe");
  if (modprobe === undefined) return problem("overlayfs", "not loaded", "apt-get install --yes kmod");
  const tried = await runProgram(modprobe, ["--dry-run", "--quiet", "overlay"]);
  return "output" in tried
    ? note("overlayfs", "not loaded yet; the platform loads it when it starts")
    : problem("overlayfs", "not in this kernel", "use a kernel with CONFIG_OVERLAY_FS, such as Debian's");
};

export const checkSeccomp: Check = ({ readFile }) =>
  (readFile("/proc/sys/kernel/seccomp/actions_avail") ?? "").includes("errno")
    ? ok("seccomp", "available")
    : problem("seccomp", "not in this kernel", "use a kernel with CONFIG_SECCOMP_FILTER, such as Debian's");

export const checkCgroups: Check = ({ readFile, stat }) => {
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

export const checkKernel: Check = ({ kernelRelease }) => {
  const [major = 0, minor = 0] = kernelRelease.split(".").map((part) => Number.parseInt(part, 10));
  const isExpected = major > kernelExpected.major || (major === kernelExpected.major && minor >= kernelExpected.minor);
  return isExpected
    ? ok("kernel", kernelRelease)
    : note("kernel", `${kernelRelease} is older than any that catnap was tried on; take Debian 12's, 6.1`);
};

export const checkKvm: Check = ({ stat }) =>
  note("kvm", stat("/dev/kvm") === undefined ? "not here; it is not needed" : "/dev/kvm is here; it is not needed");
