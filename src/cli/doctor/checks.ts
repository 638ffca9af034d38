// What catnap needs of a machine, one check each: what was found, whether it will do, and the command that mends it.
import type { Check, CheckResult, Installation } from "./check.ts";
import {
  checkCgroups,
  checkKernel,
  checkKvm,
  checkNode,
  checkOverlay,
  checkSeccomp,
  checkUser,
  checkUserNamespaces,
} from "./kernel-checks.ts";
import { checkForwarding, checkForwardPolicy, checkNftables } from "./network-checks.ts";
import { checkAddress, checkCredentials, checkDataDir, checkDisk, checkMemory } from "./place-checks.ts";
import type { Probes } from "./probes.ts";
import { checkGuest, checkImage, checkPrograms, checkRuntime } from "./program-checks.ts";

const checks: readonly Check[] = [
  checkUser,
  checkNode,
  checkKernel,
  checkUserNamespaces,
  checkOverlay,
  checkSeccomp,
  checkCgroups,
  checkNftables,
  checkForwarding,
  checkForwardPolicy,
  checkRuntime,
  checkPrograms,
  checkGuest,
  checkImage,
  checkDisk,
  checkMemory,
  checkAddress,
  checkDataDir,
  checkCredentials,
  checkKvm,
];

export function examine(probes: Probes, installation: Installation): Promise<CheckResult[]> {
  return Promise.all(checks.map((check) => check(probes, installation)));
}
