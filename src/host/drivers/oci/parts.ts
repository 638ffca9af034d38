// What the driver's verbs work with, composed once.
import type { Logger } from "../../../core/log.ts";
import type { SandboxNetwork } from "../../network/network.ts";
import type { Cgroups } from "./cgroup/cgroups.ts";
import type { DaemonPaths } from "./paths.ts";
import type { Programs } from "./programs.ts";
import type { Runtime } from "./runtime.ts";

export type OciParts = {
  paths: DaemonPaths;
  cgroups: Cgroups;
  network: SandboxNetwork;
  programs: Programs;
  runtime: Runtime;
  guestBinary: string;
  searchBinary: string;
  subIdStart: number;
  log: Logger;
};
