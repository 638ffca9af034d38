// Limits, counters, the freezer and the kill switch of the cgroup v2 hierarchy. Each function takes the group's directory.
import type { InstanceLimits } from "../../driver.ts";
import { readCgroupFile, readCgroupNumber, setCgroupLimit, writeCgroupFile } from "./files.ts";
import { cpuQuota, memoryBytes } from "./limits.ts";

export function setMemory(group: string, limits: InstanceLimits): void {
  setCgroupLimit(group, "memory.max", memoryBytes(limits));
  writeCgroupFile(group, "memory.swap.max", "0");
  // The init must survive when a process beside it is killed.
  writeCgroupFile(group, "memory.oom.group", "0");
}

export function setCpu(group: string, limits: InstanceLimits): void {
  const { quotaUs, periodUs } = cpuQuota(limits.cpuCores);
  // The burst may not exceed the quota: none while the quota changes.
  writeCgroupFile(group, "cpu.max.burst", "0");
  setCgroupLimit(group, "cpu.max", `${quotaUs} ${periodUs}`);
  writeCgroupFile(group, "cpu.max.burst", String(quotaUs));
  writeCgroupFile(group, "cpu.weight", String(Math.min(10_000, Math.max(1, Math.round(limits.cpuCores * 100)))));
}

export function readMemoryBytes(group: string): number {
  return readCgroupNumber(group, "memory.current") ?? 0;
}

export function readOomKills(group: string): number {
  return readCgroupNumber(group, "memory.events", "oom_kill") ?? 0;
}

export function askToFreeze(group: string): boolean {
  return writeCgroupFile(group, "cgroup.freeze", "1");
}

export function isFrozen(group: string): boolean {
  return readCgroupNumber(group, "cgroup.events", "frozen") === 1;
}

export function thaw(group: string): boolean {
  return writeCgroupFile(group, "cgroup.freeze", "0");
}

/** Undefined where there is no such group. */
export function isPopulated(group: string): boolean | undefined {
  const populated = readCgroupNumber(group, "cgroup.events", "populated");
  return populated === undefined ? undefined : populated === 1;
}

/** Kills every process at once, frozen ones and those being forked too; false before Linux 5.14. */
export function killAll(group: string): boolean {
  return readCgroupFile(group, "cgroup.events") !== undefined && writeCgroupFile(group, "cgroup.kill", "1");
}
