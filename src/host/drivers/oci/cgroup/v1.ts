// Limits, counters and the freezer of a cgroup v1 hierarchy. Each function takes the group's directory.
import type { InstanceLimits } from "../../driver.ts";
import { readCgroupFile, readCgroupNumber, setCgroupLimit, writeCgroupFile } from "./files.ts";
import { cpuQuota, memoryBytes } from "./limits.ts";

export function setMemory(group: string, limits: InstanceLimits): void {
  const bytes = memoryBytes(limits);
  const lowers = bytes < (readCgroupNumber(group, "memory.limit_in_bytes") ?? 0);
  // Memory with swap may never be below memory, so the order depends on the direction. The file is missing without swap accounting.
  if (lowers) setCgroupLimit(group, "memory.limit_in_bytes", bytes);
  writeCgroupFile(group, "memory.memsw.limit_in_bytes", String(bytes));
  if (!lowers) setCgroupLimit(group, "memory.limit_in_bytes", bytes);
}

export function setCpu(group: string, limits: InstanceLimits): void {
  const { quotaUs, periodUs } = cpuQuota(limits.cpuCores);
  // Burst and quota bound each other; without quota any period and any new quota is accepted.
  writeCgroupFile(group, "cpu.cfs_burst_us", "0");
  writeCgroupFile(group, "cpu.cfs_quota_us", "-1");
  writeCgroupFile(group, "cpu.cfs_period_us", String(periodUs));
  setCgroupLimit(group, "cpu.cfs_quota_us", quotaUs);
  writeCgroupFile(group, "cpu.cfs_burst_us", String(quotaUs));
  writeCgroupFile(group, "cpu.shares", String(Math.max(2, Math.round(limits.cpuCores * 1024))));
}

export function readMemoryBytes(group: string): number {
  return readCgroupNumber(group, "memory.usage_in_bytes") ?? 0;
}

export function readOomKills(group: string): number {
  return readCgroupNumber(group, "memory.oom_control", "oom_kill") ?? 0;
}

/** Asks for it; the state reads FREEZING until every process has stopped, and asking again helps a stuck one along. */
export function askToFreeze(group: string): boolean {
  return writeCgroupFile(group, "freezer.state", "FROZEN");
}

export function isFrozen(group: string): boolean {
  return readCgroupFile(group, "freezer.state")?.trim() === "FROZEN";
}

export function thaw(group: string): boolean {
  return writeCgroupFile(group, "freezer.state", "THAWED");
}
