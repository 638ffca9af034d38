// Whether this machine can run the driver, and the command that mends what is missing.
import { accessSync, constants, existsSync, readFileSync, statSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";
import type { DriverProblem } from "../driver.ts";
import type { ControllerName } from "./cgroup/detect.ts";
import { hasOverlay, machineFileSystems } from "./overlay.ts";
import type { OciParts } from "./parts.ts";

/** Programs and the Debian packages they come in. */
const programPackages: Readonly<Record<string, string>> = {
  ip: "iproute2",
  nft: "nftables",
  mount: "mount",
  umount: "mount",
  nsenter: "util-linux",
  tee: "coreutils",
  rm: "coreutils",
};

const controllersNeeded: readonly ControllerName[] = ["memory", "cpu", "pids", "freezer"];

export async function fingerprint(
  options: { runtime: string; guestBinary: string; searchBinary: string },
  parts: OciParts,
): Promise<DriverProblem[]> {
  const problems: DriverProblem[] = [];
  const need = (ok: boolean, problem: string, remedy: string): void => {
    if (!ok) problems.push({ problem, remedy });
  };
  need(process.getuid?.() === 0, "not running as root", "start it as root");
  for (const [program, debianPackage] of Object.entries(programPackages)) {
    need(isProgram(program, parts), `the program ${program} is missing`, `apt-get install ${debianPackage}`);
  }
  need(isProgram(options.runtime, parts), `the runtime ${options.runtime} is missing`, "apt-get install runc");
  const { guestBinary, searchBinary } = options;
  need(isExecutable(guestBinary), `the sandboxes' init is not at ${guestBinary}`, "node scripts/build-guest.mjs");
  need(isExecutable(searchBinary), `ripgrep is not at ${searchBinary}`, "npm ci --ignore-scripts");
  const overlay = await hasOverlay(machineFileSystems(parts.programs));
  need(overlay, "the kernel has no overlay file system", "modprobe overlay");
  need(userNamespacesMax() > 0, "user namespaces are off", "sysctl -w user.max_user_namespaces=65536");
  const { controllers } = parts.cgroups.layout;
  for (const name of controllersNeeded) {
    const remedy = "boot with systemd.unified_cgroup_hierarchy=1 and without cgroup_disable";
    need(controllers[name] !== undefined, `the cgroup controller ${name} is missing`, remedy);
  }
  need(existsSync("/proc/sys/net/ipv4/ip_forward"), "the kernel has no IPv4", "use a kernel with networking");
  return problems;
}

function isProgram(program: string, { programs }: OciParts): boolean {
  const places = isAbsolute(program)
    ? [program]
    : programs
        .environment(undefined)
        .PATH!.split(delimiter)
        .map((dir) => join(dir, program));
  return places.some(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function userNamespacesMax(): number {
  try {
    return Number(readFileSync("/proc/sys/user/max_user_namespaces", "utf8"));
  } catch {
    return 0;
  }
}
