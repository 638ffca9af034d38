// Turns what a sandbox may use into the numbers the kernel takes, the same for both cgroup versions.
import type { InstanceLimits } from "../../driver.ts";

export type CpuQuota = { quotaUs: number; periodUs: number };

/** The kernel refuses a quota below 1 ms. */
const quotaMinUs = 1_000;
/** A period of 100 ms, the usual one, lets a short command wait 90 ms for its next turn. */
const periodUs = 10_000;

export function cpuQuota(cpuCores: number): CpuQuota {
  const quotaUs = Math.round(cpuCores * periodUs);
  if (quotaUs >= quotaMinUs) return { quotaUs, periodUs };
  return { quotaUs: quotaMinUs, periodUs: Math.min(Math.round(quotaMinUs / cpuCores), 1_000_000) };
}

export function memoryBytes(limits: InstanceLimits): number {
  return limits.memoryMb * 1024 * 1024;
}
