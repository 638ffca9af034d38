// What a driver is: it makes, freezes, thaws and destroys isolated instances on this machine, and finds them again after a restart.
import type { Capabilities } from "./capabilities.ts";

export type InstanceLimits = {
  memoryMb: number;
  /** Fractions of a core, memory in MB / 2048 (spec 2.4). */
  cpuCores: number;
  processesMax: number;
};

export type InstanceSpec = {
  /** `[a-z0-9]{8,32}`, chosen by the caller; names cgroup, bundle and network device. */
  id: string;
  /** Directory of this instance; the driver keeps what it needs under `driverDir` of it. */
  dir: string;
  /** Read-only root file system, ids already shifted to the unprivileged range. */
  imageRoot: string;
  limits: InstanceLimits;
  hostname: string;
};

/** A live instance: where its init listens. */
export type InstanceHandle = { id: string; guestSocketPath: string };

export type InstanceCondition = {
  status: "running" | "frozen" | "dead" | "missing";
  memoryBytes: number;
  processCount: number;
  /** Processes the kernel has killed for want of memory since the instance was made. */
  oomKills: number;
};

/** Processes of an instance, each of their threads and its init included. */
export type ProcessCount = {
  current: number;
  /** How many there may be before programs inside are refused another one, and before everybody is. */
  limit: number;
  max: number;
  /** The most there ever were, and how often one was refused for `max`; not every kernel tells. */
  peak?: number;
  refusals?: number;
};

/**
 * Every verb is idempotent: repeating it after a crash completes or confirms it. Verbs for different ids may run concurrently; the
 * caller never runs two for the same id. All reject with an AppError; `create` leaves nothing behind when it rejects or is aborted.
 */
export interface Driver extends AsyncDisposable {
  readonly name: string;
  readonly capabilities: Capabilities;
  /** Where the program that searches contents (ripgrep) is found inside an instance. */
  readonly searchProgram: string;
  /** Whether this machine can run it: empty when it can, else one problem a line with the command that mends it. */
  fingerprint(): Promise<DriverProblem[]>;
  /** Machine-wide preparation (cgroup parents, network tables); safe to repeat. */
  prepare(): Promise<void>;
  /** Makes the instance and starts its init. An existing live instance of that id is returned as it is. */
  create(spec: InstanceSpec, signal: AbortSignal): Promise<InstanceHandle>;
  /** Kills what still runs of the instance and starts it again on the files it left (its writable layer is kept). */
  restart(spec: InstanceSpec, signal: AbortSignal): Promise<InstanceHandle>;
  setLimits(id: string, limits: InstanceLimits): Promise<void>;
  /** Resolves once no process of the instance runs; after an abort it writes no more, because a thaw may follow at once. */
  freeze(id: string, signal?: AbortSignal): Promise<void>;
  /** Synchronous because a caller waits: one write to a file. */
  thaw(id: string): void;
  /**
   * Lets the init of an instance that is awake go on where somebody outside has stopped it (SIGSTOP); says whether it was stopped.
   * Harmless at any moment: it neither thaws nor disturbs what runs.
   */
  rouse(id: string): boolean;
  /** Kills every process at once and removes cgroup, mounts, namespaces, network device and directory `dir`. */
  destroy(id: string, dir: string): Promise<void>;
  inspect(id: string): Promise<InstanceCondition>;
  /** `oomKills` alone and at once, because it is asked when a process starts and when it ends. */
  countOomKills(id: string): number;
  /** For the same moments; undefined where the kernel counts none. */
  countProcesses(id: string): ProcessCount | undefined;
  /** Ids of everything of this driver found on the machine, alive or half-made: what nobody claims is to be destroyed. */
  listFound(): Promise<string[]>;
}

export type DriverProblem = { problem: string; remedy: string };
