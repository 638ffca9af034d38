// Compares what sandboxes leave on a machine before and after a run of the tests: processes, control groups, mounts, network devices.
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";

/** One line for each thing that belongs to sandboxes, whoever made it. */
export function listSandboxThings(): Set<string> {
  return new Set([...controlGroups(), ...mounts("/run/catnap/"), ...devices(), ...instanceProcesses(), ...runDirs()]);
}

/** One line for each mount and process that can only be of the run with this directory for temporary files. */
export function listOwnThings(scratchDir: string): string[] {
  return [...mounts(`${scratchDir}/`), ...ownProcesses(scratchDir).map(describe)];
}

/** Ends what the run's tests did not end themselves. */
export function endOwnProcesses(scratchDir: string): void {
  for (const { pid } of ownProcesses(scratchDir)) process.kill(pid, "SIGKILL");
}

/** Test processes and platforms that are not ours run on this machine: what is new may be theirs. */
export function othersAreAtWork(scratchDir: string): boolean {
  return eachProcess().some(({ pid, environment, command }) => {
    const isCatnap = /src\/(cli|dev)\/\w+\.ts|\.test\.ts|bench\/main\.ts/.test(command);
    return isCatnap && pid !== process.pid && !environment.includes(`TMPDIR=${scratchDir}\0`);
  });
}

/** Test runs and benchmarks give their groups names of their own, `catnap-<random>`; a platform's is `catnap`. */
function controlGroups(): string[] {
  const root = "/sys/fs/cgroup";
  const hierarchies = existsSync(join(root, "cgroup.procs"))
    ? [root]
    : directories(root).map((name) => join(root, name));
  return hierarchies.flatMap((hierarchy) =>
    directories(hierarchy)
      .filter((name) => name.startsWith("catnap-"))
      .map((name) => `control group ${join(hierarchy, name)}`),
  );
}

function mounts(prefix: string): string[] {
  return readText("/proc/self/mountinfo")
    .split("\n")
    .map((line) => line.split(" ")[4] ?? "")
    .filter((point) => point.startsWith(prefix))
    .map((point) => `mount ${point}`);
}

function devices(): string[] {
  return readdirSync("/sys/class/net")
    .filter((name) => /^cn[a-z0-9]{4}/.test(name))
    .map((name) => `network device ${name}`);
}

type Process = { pid: number; environment: string; command: string };

/** Programs that work for an instance carry its name, wherever they were started from. */
function instanceProcesses(): string[] {
  return eachProcess()
    .filter(({ environment }) => environment.includes("CATNAP_INSTANCE="))
    .map(describe);
}

/** Everything the tests started inherits their directory for temporary files. */
function ownProcesses(scratchDir: string): Process[] {
  return eachProcess().filter(
    ({ pid, environment }) => pid !== process.pid && environment.includes(`TMPDIR=${scratchDir}\0`),
  );
}

function describe({ pid, command }: Process): string {
  return `process ${pid}: ${command.slice(0, 100)}`;
}

function runDirs(): string[] {
  return directories("/run/catnap").map((name) => `directory /run/catnap/${name}`);
}

function eachProcess(): Process[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => ({
      pid: Number(name),
      environment: `${readText(`/proc/${name}/environ`)}\0`,
      command: readText(`/proc/${name}/cmdline`).replaceAll("\0", " ").trim(),
    }))
    .filter(({ command, pid }) => command !== "" && isAlive(pid));
}

/** A dead process that nobody has reaped has no program any more. */
function isAlive(pid: number): boolean {
  try {
    return readlinkSync(`/proc/${pid}/exe`) !== "";
  } catch {
    return false;
  }
}

function directories(path: string): string[] {
  try {
    const entries = readdirSync(path, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  } catch {
    return [];
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}
