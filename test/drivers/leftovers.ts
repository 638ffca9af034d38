// Looks for everything a driver could have left on the machine, without asking the driver.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { readCgroupLayout } from "../../src/host/drivers/oci/cgroup/cgroups.ts";
import { listGroups } from "../../src/host/drivers/oci/cgroup/files.ts";
import { parseMountPoints } from "../../src/host/drivers/oci/mounts.ts";
import { daemonPaths, groupParent } from "../../src/host/drivers/oci/paths.ts";

export type LeftoverQuery = {
  dataDir: string;
  cgroupParent: string;
  /** Instances that are supposed to exist: what belongs to them is no leftover. */
  expected?: readonly string[];
};

/** One line a thing: cgroups, mounts, devices, routes, processes and directories nobody expects. */
export async function findLeftovers({ dataDir, cgroupParent, expected = [] }: LeftoverQuery): Promise<string[]> {
  const paths = daemonPaths(dataDir);
  const group = groupParent(paths, cgroupParent);
  const isExpected = (id: string): boolean => expected.includes(id);
  const isMine = (path: string): boolean =>
    path.startsWith(paths.runDir) || path.startsWith(join(dataDir, "instances"));
  const found = [
    ...findCgroups(group).filter(({ id }) => !isExpected(id)),
    ...findMounts(isMine),
    ...findDevices(`cn${paths.tag.slice(0, 4)}`).filter(({ id }) => !isExpected(id)),
    ...findProcesses(paths.tag, group).filter(({ id }) => !isExpected(id)),
    ...findDirs(join(dataDir, "instances")).filter(({ id }) => !isExpected(id)),
    ...[paths.runtimeRoot, paths.rootsDir].flatMap(findDirs).filter(({ id }) => !isExpected(id)),
  ];
  return [...new Set(found.map(({ what }) => what))];
}

type Finding = { id: string; what: string };

function findCgroups(parent: string): Finding[] {
  return readCgroupLayout().hierarchies.flatMap((hierarchy) =>
    listGroups(join(hierarchy, parent)).map((id) => ({ id, what: `cgroup ${join(hierarchy, parent, id)}` })),
  );
}

/** Namespaces kept alive by a mount would show here too; those of dead processes are gone with them. */
function findMounts(isMine: (path: string) => boolean): Finding[] {
  return parseMountPoints(readText("/proc/self/mountinfo"))
    .filter(isMine)
    .map((mountPoint) => ({ id: "", what: `mount ${mountPoint}` }));
}

function findDevices(prefix: string): Finding[] {
  const devices = readdirSync("/sys/class/net")
    .filter((device) => device.startsWith(prefix))
    .map((device) => ({
      id: readText(`/sys/class/net/${device}/ifalias`).replace("catnap ", "").trim(),
      what: `device ${device}`,
    }));
  const routes = readText("/proc/net/route")
    .split("\n")
    .map((line) => line.split("\t")[0]!)
    .filter((device) => device.startsWith(prefix) && !existsSync(`/sys/class/net/${device}`))
    .map((device) => ({ id: "", what: `route of ${device}` }));
  return [...devices, ...routes];
}

/** Programs that work for an instance carry the daemon's tag in their environment; processes inside are in its cgroups. */
function findProcesses(tag: string, parent: string): Finding[] {
  const found: Finding[] = [];
  for (const pid of numericNames("/proc")) {
    const mark = new RegExp(`\\0?CATNAP_INSTANCE=${tag}/([a-z0-9]+)\\0`).exec(readText(`/proc/${pid}/environ`));
    const group = new RegExp(`:/${parent}/([^\\n/]+)`).exec(readText(`/proc/${pid}/cgroup`));
    const id = mark?.[1] ?? group?.[1];
    const isZombie = /\nState:\tZ/.test(readText(`/proc/${pid}/status`));
    if (id !== undefined && !isZombie) {
      found.push({ id, what: `process ${pid} ${readText(`/proc/${pid}/comm`).trim()} of ${id}` });
    }
  }
  return found;
}

function findDirs(dir: string): Finding[] {
  if (!existsSync(dir)) return [];
  return readdirSync(dir).map((id) => ({ id, what: `directory ${join(dir, id)}` }));
}

function numericNames(dir: string): string[] {
  return readdirSync(dir).filter((name) => /^\d+$/.test(name));
}

function readText(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}
