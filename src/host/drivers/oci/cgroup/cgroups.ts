// The cgroups of this daemon's sandboxes, `<hierarchy>/<parent>/<id>` in every hierarchy, whatever mixture of versions the machine has.
import { mkdirSync, readFileSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../../../../core/errors.ts";
import type { InstanceCondition, InstanceLimits, ProcessCount } from "../../driver.ts";
import { waitUntil } from "../../wait-until.ts";
import { delegateControllers } from "./delegation.ts";
import { type CgroupLayout, type ControllerName, detectCgroups } from "./detect.ts";
import {
  isGone,
  listGroups,
  readCgroupFile,
  readCgroupNumber,
  readPids,
  setCgroupLimit,
  writeCgroupFile,
} from "./files.ts";
import * as v1 from "./v1.ts";
import * as v2 from "./v2.ts";

const limitNames = ["memory", "cpu", "pids"] as const;
const freezeTimeoutMs = 5_000;
const killTimeoutMs = 10_000;
const removeTimeoutMs = 5_000;

type Versioned = { version: 1 | 2; group: string };

export class Cgroups {
  readonly layout: CgroupLayout;
  readonly #parent: string;

  constructor(layout: CgroupLayout, parent: string) {
    this.layout = layout;
    this.#parent = parent;
  }

  /** What the runtime is told: a path from the root of each hierarchy. */
  runtimePath(id: string): string {
    return `/${this.#parent}/${id}`;
  }

  /** Groups of the sandbox, one a hierarchy, whether they exist or not. */
  groups(id: string): string[] {
    return this.layout.hierarchies.map((mountPoint) => join(mountPoint, this.#parent, id));
  }

  /** Makes the parents, so that the first sandbox costs no more than the others, and has v2 hand down what limits them. */
  prepare(): void {
    const { hierarchies, controllers, unified } = this.layout;
    for (const mountPoint of hierarchies) mkdirSync(join(mountPoint, this.#parent), { recursive: true });
    if (unified === undefined) return;
    // Freezing is part of every group and not handed down.
    const names = limitNames.filter((name) => controllers[name]?.version === 2);
    delegateControllers(unified, this.#parent, names);
  }

  listIds(): string[] {
    return [...new Set(this.layout.hierarchies.flatMap((mountPoint) => listGroups(join(mountPoint, this.#parent))))];
  }

  /** Puts the init into the unified hierarchy where the runtime did not; what it starts later inherits the place. */
  adopt(id: string, pid: number): void {
    const { unified } = this.layout;
    if (unified === undefined || this.layout.mode === "unified") return;
    const group = join(unified, this.#parent, id);
    if (readPids(group).includes(pid)) return;
    mkdirSync(group, { recursive: true });
    writeCgroupFile(group, "cgroup.procs", String(pid));
  }

  setLimits(id: string, limits: InstanceLimits): void {
    const memory = this.#find("memory", id);
    if (memory !== undefined) (memory.version === 1 ? v1 : v2).setMemory(memory.group, limits);
    const cpu = this.#find("cpu", id);
    if (cpu !== undefined) (cpu.version === 1 ? v1 : v2).setCpu(cpu.group, limits);
    const pids = this.#find("pids", id);
    if (pids !== undefined) setCgroupLimit(pids.group, "pids.max", limits.processesMax);
  }

  /** Resolves once nothing of it runs; after an abort it writes no more and resolves. */
  async freeze(id: string, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return;
    const freezer = this.#freezer(id);
    const { askToFreeze, isFrozen } = freezer.version === 1 ? v1 : v2;
    if (!askToFreeze(freezer.group)) throw new AppError("not_found", "There is no such instance to freeze.");
    const check = (): boolean => isFrozen(freezer.group) || (freezer.version === 1 && !askToFreeze(freezer.group));
    const frozen = await waitUntil(check, { timeoutMs: freezeTimeoutMs, signal });
    if (!frozen && !signal?.aborted) throw new AppError("timeout", "The instance did not freeze in time.");
  }

  thaw(id: string): void {
    const freezer = this.#freezer(id);
    (freezer.version === 1 ? v1 : v2).thaw(freezer.group);
  }

  /** Kills every process, frozen or not, and resolves when none is left. */
  async killAll(id: string): Promise<void> {
    const { unified } = this.layout;
    const group = unified === undefined ? undefined : join(unified, this.#parent, id);
    const killed = group !== undefined && v2.killAll(group);
    const gone = await waitUntil(
      () => {
        // Without the kill switch, or with processes it does not see, one by one until nothing new appears.
        if (!killed || v2.isPopulated(group) === false) this.#signalAll(id);
        return this.pids(id).length === 0 && (group === undefined || v2.isPopulated(group) !== true);
      },
      { timeoutMs: killTimeoutMs },
    );
    if (!gone) throw new AppError("timeout", "Processes of the instance did not die in time.");
  }

  /** Processes in any hierarchy: a half-made sandbox may have joined only some. */
  pids(id: string): number[] {
    return [...new Set(this.groups(id).flatMap(readPids))];
  }

  /** Removes the groups, and those below them, in every hierarchy; the processes are dead by now. */
  async remove(id: string): Promise<void> {
    let failure: unknown;
    const tryAll = (): boolean => {
      failure = undefined;
      for (const group of this.groups(id)) {
        try {
          removeTree(group);
        } catch (error) {
          failure = error;
        }
      }
      return failure === undefined;
    };
    if (await waitUntil(tryAll, { timeoutMs: removeTimeoutMs })) return;
    throw new AppError("internal", "A control group of the instance could not be removed.", { cause: failure });
  }

  exists(id: string): boolean {
    return this.groups(id).some((group) => readCgroupFile(group, "cgroup.procs") !== undefined);
  }

  /** `dead` where a group exists and nobody lives in it. */
  inspect(id: string): InstanceCondition {
    const memory = this.#find("memory", id);
    const pids = this.pids(id);
    const freezer = this.#freezer(id);
    const frozen = pids.length > 0 && (freezer.version === 1 ? v1 : v2).isFrozen(freezer.group);
    const status = pids.length > 0 ? (frozen ? "frozen" : "running") : this.exists(id) ? "dead" : "missing";
    if (memory === undefined) return { status, memoryBytes: 0, processCount: pids.length, oomKills: 0 };
    const { readMemoryBytes, readOomKills } = memory.version === 1 ? v1 : v2;
    return {
      status,
      memoryBytes: readMemoryBytes(memory.group),
      processCount: pids.length,
      oomKills: readOomKills(memory.group),
    };
  }

  countOomKills(id: string): number {
    const memory = this.#find("memory", id);
    return memory === undefined ? 0 : (memory.version === 1 ? v1 : v2).readOomKills(memory.group);
  }

  /** The files are the same in both versions; the last two are missing in earlier kernels. Undefined without a limit. */
  countProcesses(id: string): Omit<ProcessCount, "limit"> | undefined {
    const group = this.#find("pids", id)?.group;
    if (group === undefined) return undefined;
    const current = readCgroupNumber(group, "pids.current");
    const max = readCgroupNumber(group, "pids.max");
    if (current === undefined || max === undefined) return undefined;
    const peak = readCgroupNumber(group, "pids.peak");
    const refusals = readCgroupNumber(group, "pids.events", "max");
    return { current, max, ...(peak === undefined ? {} : { peak }), ...(refusals === undefined ? {} : { refusals }) };
  }

  /** Removes the parents when nothing is below them any more. */
  removeParents(): void {
    for (const mountPoint of this.layout.hierarchies) {
      try {
        rmdirSync(join(mountPoint, this.#parent));
      } catch (error) {
        if (!isGone(error) && (error as NodeJS.ErrnoException).code !== "EBUSY") throw error;
      }
    }
  }

  #find(name: ControllerName, id: string): Versioned | undefined {
    const controller = this.layout.controllers[name];
    return controller && { version: controller.version, group: join(controller.mountPoint, this.#parent, id) };
  }

  #freezer(id: string): Versioned {
    const freezer = this.#find("freezer", id);
    if (freezer === undefined) throw new AppError("unavailable", "This machine has no cgroup freezer.");
    return freezer;
  }

  /** SIGKILL to each; a process frozen by v1 dies only after a thaw, so stop everything, signal everything, let go. */
  #signalAll(id: string): void {
    const freezer = this.#freezer(id);
    if (freezer.version === 1) v1.askToFreeze(freezer.group);
    for (const pid of this.pids(id)) {
      try {
        // 0 stands for a process of another pid namespace; to kill() it would mean this process's own group.
        if (pid > 0) process.kill(pid, "SIGKILL");
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
      }
    }
    if (freezer.version === 1) v1.thaw(freezer.group);
  }
}

/** Reads the machine's own layout. */
export function readCgroupLayout(): CgroupLayout {
  return detectCgroups(
    readFileSync("/proc/self/mountinfo", "utf8"),
    (mountPoint) => readCgroupFile(mountPoint, "cgroup.controllers") ?? "",
  );
}

function removeTree(group: string): void {
  for (const name of listGroups(group)) removeTree(join(group, name));
  try {
    rmdirSync(group);
  } catch (error) {
    if (!isGone(error)) throw error;
  }
}
