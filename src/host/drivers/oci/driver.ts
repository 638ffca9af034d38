// The driver that makes instances with an OCI runtime: namespaces, cgroups, an overlay and a network device each, no daemon of its own.
import { chmodSync, existsSync, mkdirSync, readdirSync, rmdirSync } from "node:fs";
import { basename, dirname, isAbsolute, join } from "node:path";
import { AppError, toAppError } from "../../../core/errors.ts";
import type { Logger } from "../../../core/log.ts";
import { SandboxNetwork } from "../../network/network.ts";
import type { NetworkSettings } from "../../network/settings.ts";
import type { Driver, InstanceCondition, InstanceHandle, InstanceSpec, ProcessCount } from "../driver.ts";
import { processesForPrograms } from "./bundle.ts";
import { Cgroups, readCgroupLayout } from "./cgroup/cgroups.ts";
import { endProcesses, removeDir } from "./end.ts";
import { fingerprint } from "./fingerprint.ts";
import type { OciParts } from "./parts.ts";
import { daemonPaths, groupParent, type InstancePaths, instancePaths } from "./paths.ts";
import { Programs } from "./programs.ts";
import { removeUnfinishedLayers, searchPath } from "./root-layer.ts";
import { Runtime } from "./runtime.ts";
import { startInstance } from "./start.ts";
import { isStoppedInit } from "./stopped-init.ts";
import { raiseMachineCounters } from "./user-counters.ts";

export type OciDriverOptions = {
  dataDir: string;
  /** Name or path of the runtime's program, e.g. `runc`. */
  runtime: string;
  /** The init, a static binary. */
  guestBinary: string;
  /** The program that searches contents inside, a static binary. */
  searchBinary: string;
  /** First of 65536 unprivileged ids that stand for every sandbox's own. */
  subIdStart: number;
  log: Logger;
  network: NetworkSettings;
  /** What the name of the cgroup above those of the sandboxes begins with. */
  cgroupParent: string;
};

/** `teardown` removes what the driver set up machine-wide; for after the last instance. */
export function createOciDriver(options: OciDriverOptions): { driver: Driver; teardown(): Promise<void> } {
  if (!isAbsolute(options.dataDir)) throw new AppError("invalid_request", "The data directory must be absolute.");
  if (!/^[a-z0-9][a-z0-9_-]*$/.test(options.cgroupParent)) {
    throw new AppError("invalid_request", "CATNAP_CGROUP_PARENT must be a plain name, such as catnap.");
  }
  const paths = daemonPaths(options.dataDir);
  const programs = new Programs(paths.tag);
  const parts: OciParts = {
    paths,
    programs,
    cgroups: new Cgroups(readCgroupLayout(), groupParent(paths, options.cgroupParent)),
    network: new SandboxNetwork({
      tag: paths.tag,
      settings: options.network,
      run: (program, args, runOptions) => programs.run(program, args, runOptions),
    }),
    runtime: new Runtime({ program: options.runtime, root: paths.runtimeRoot, programs }),
    guestBinary: options.guestBinary,
    searchBinary: options.searchBinary,
    subIdStart: options.subIdStart,
    log: options.log,
  };
  return { driver: new OciDriver(parts, options), teardown: () => teardown(parts) };
}

class OciDriver implements Driver {
  readonly name = "oci";
  readonly capabilities = { isolation: true, limits: true, network: true };
  readonly searchProgram = searchPath;
  readonly #parts: OciParts;
  readonly #options: OciDriverOptions;
  #swept = false;

  constructor(parts: OciParts, options: OciDriverOptions) {
    this.#parts = parts;
    this.#options = options;
  }

  fingerprint(): ReturnType<Driver["fingerprint"]> {
    return fingerprint(this.#options, this.#parts);
  }

  async prepare(): Promise<void> {
    const { paths, cgroups, network } = this.#parts;
    // Passable for a sandbox's root, who walks to its root file system; not readable.
    for (const dir of [dirname(paths.runDir), paths.runDir, paths.rootsDir]) {
      mkdirSync(dir, { recursive: true });
      chmodSync(dir, 0o711);
    }
    mkdirSync(paths.runtimeRoot, { recursive: true, mode: 0o700 });
    cgroups.prepare();
    const notRaised = raiseMachineCounters();
    if (notRaised.length > 0) this.#parts.log.warn({ files: notRaised }, "kernel limits could not be raised");
    removeUnfinishedLayers(paths.layersDir);
    await network.prepare();
    if (!this.#swept) await this.#endUnfinished();
    this.#swept = true;
  }

  async create(spec: InstanceSpec, signal: AbortSignal): Promise<InstanceHandle> {
    return this.#start(spec, signal, { existing: "keep" });
  }

  async restart(spec: InstanceSpec, signal: AbortSignal): Promise<InstanceHandle> {
    return this.#start(spec, signal, { existing: "end" });
  }

  async setLimits(id: string, limits: InstanceSpec["limits"]): Promise<void> {
    if (!this.#parts.cgroups.exists(checkId(id))) throw new AppError("not_found", "There is no such instance.");
    this.#parts.cgroups.setLimits(id, limits);
  }

  freeze(id: string, signal?: AbortSignal): Promise<void> {
    return this.#parts.cgroups.freeze(id, signal);
  }

  thaw(id: string): void {
    this.#parts.cgroups.thaw(id);
  }

  rouse(id: string): boolean {
    // The init was the first in its group; only what is in the group now is signalled, so never a stranger with its number.
    const stopped = this.#parts.cgroups.pids(checkId(id)).filter(isStoppedInit);
    for (const pid of stopped) process.kill(pid, "SIGCONT");
    return stopped.length > 0;
  }

  async destroy(id: string, dir: string): Promise<void> {
    checkDir(checkId(id), dir);
    try {
      await endProcesses(this.#parts, id, dir);
      await removeDir(this.#parts, id, dir);
    } catch (error) {
      throw toAppError(error);
    }
  }

  async inspect(id: string): Promise<InstanceCondition> {
    const condition = this.#parts.cgroups.inspect(checkId(id));
    const { driverDir, madeFile } = this.#pathsOf(id);
    if (condition.status === "missing") {
      // After a reboot only the files are left.
      return existsSync(driverDir) ? { ...condition, status: "dead" } : condition;
    }
    // An init that runs without what its start did not get to, its network for instance, is of no use.
    return existsSync(madeFile) ? condition : { ...condition, status: "dead" };
  }

  countOomKills(id: string): number {
    return this.#parts.cgroups.countOomKills(checkId(id));
  }

  countProcesses(id: string): ProcessCount | undefined {
    const counted = this.#parts.cgroups.countProcesses(checkId(id));
    return counted && { ...counted, limit: processesForPrograms(counted.max) };
  }

  async listFound(): Promise<string[]> {
    const { paths, cgroups, network } = this.#parts;
    const withFiles = listDir(paths.instancesDir).filter((id) => existsSync(this.#pathsOf(id).driverDir));
    const found = [
      cgroups.listIds(),
      network.listIds(),
      listDir(paths.runtimeRoot),
      listDir(paths.rootsDir),
      withFiles,
    ];
    return [...new Set(found.flat())].filter((id) => idPattern.test(id));
  }

  #pathsOf(id: string): InstancePaths {
    const { paths } = this.#parts;
    return instancePaths(paths, id, join(paths.instancesDir, id));
  }

  /** Starts that an earlier daemon did not finish: their files stay, for whoever decides about them. */
  async #endUnfinished(): Promise<void> {
    const { paths, cgroups } = this.#parts;
    for (const id of new Set([...listDir(paths.rootsDir), ...cgroups.listIds()])) {
      if (!idPattern.test(id) || existsSync(this.#pathsOf(id).madeFile)) continue;
      await endProcesses(this.#parts, id, join(paths.instancesDir, id)).catch((err: unknown) => {
        this.#parts.log.error({ instance: id, err }, "an unfinished start could not be undone");
      });
    }
  }

  /** Lets go only: instances outlive the daemon. */
  async [Symbol.asyncDispose](): Promise<void> {}

  async #start(
    spec: InstanceSpec,
    signal: AbortSignal,
    { existing }: { existing: "keep" | "end" },
  ): Promise<InstanceHandle> {
    const { id, dir } = spec;
    checkDir(checkId(id), dir);
    const paths = instancePaths(this.#parts.paths, id, dir);
    const made = existsSync(paths.madeFile);
    if (made && existing === "keep" && this.#parts.cgroups.pids(id).length > 0) {
      return { id, guestSocketPath: paths.socket };
    }
    // What a first start wrote goes with it when it fails; a restart that fails keeps the sandbox's files.
    const added = [dir, paths.driverDir].find((path) => !existsSync(path));
    try {
      signal.throwIfAborted();
      if (added === undefined || this.#parts.cgroups.exists(id)) await endProcesses(this.#parts, id, dir);
      return await startInstance(this.#parts, spec, signal);
    } catch (error) {
      try {
        await endProcesses(this.#parts, id, dir);
        if (added !== undefined) await removeDir(this.#parts, id, added);
      } catch (err) {
        this.#parts.log.error({ instance: id, err }, "a failed start could not be undone; destroying tries again");
      }
      if (signal.aborted) throw new AppError("unavailable", "Making the instance was given up.", { cause: error });
      throw toAppError(error);
    }
  }
}

const idPattern = /^[a-z0-9]{8,32}$/;

function checkId(id: string): string {
  if (!idPattern.test(id)) throw new AppError("invalid_request", "An instance id is 8 to 32 of [a-z0-9].");
  return id;
}

/** A directory is removed whole: the name must say that it belongs to the instance. */
function checkDir(id: string, dir: string): void {
  if (!isAbsolute(dir) || basename(dir) !== id) {
    throw new AppError("invalid_request", "An instance's directory is absolute and named after its id.");
  }
}

function listDir(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

async function teardown({ paths, cgroups, network, programs }: OciParts): Promise<void> {
  await network.teardown();
  cgroups.removeParents();
  for (const dir of [paths.runtimeRoot, paths.rootsDir, paths.runDir]) {
    if (existsSync(dir)) rmdirSync(dir);
  }
  if (existsSync(paths.layersDir)) {
    await programs.run("rm", ["-rf", "--one-file-system", "--", paths.layersDir]);
  }
}
