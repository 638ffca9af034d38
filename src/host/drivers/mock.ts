// A driver without isolation: the real init as a plain process of this machine. For trying things where nothing may be installed, and
// for tests of what happens when instances fail, which its scripted faults bring about.
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { basename, isAbsolute, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { writeFileAtomic } from "../../core/atomic-file.ts";
import { AppError } from "../../core/errors.ts";
import type { Driver, DriverProblem, InstanceCondition, InstanceHandle, InstanceSpec } from "./driver.ts";
import { listenAt } from "./listener.ts";
import {
  continueAll,
  type InitProcess,
  isAlive,
  killAll,
  readProcess,
  readTree,
  runningOf,
  stopAll,
} from "./mock-processes.ts";

export type MockFaults = {
  /** Numbers of the starts that fail, counted from 1 over creates and restarts. */
  failedStarts?: readonly number[];
  startDelayMs?: number;
  /** The init of every instance is killed after this time. */
  dieAfterMs?: number;
  /** Freezes that fail, counted from 1. */
  failedFreezes?: readonly number[];
};

export type MockDriverOptions = { dataDir: string; guestBinary: string; searchBinary: string; faults?: MockFaults };

const pageBytes = 4_096;

export class MockDriver implements Driver {
  readonly name = "mock";
  readonly capabilities = { isolation: false, limits: false, network: false };
  readonly #options: MockDriverOptions;
  readonly #dirs = new Map<string, string>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #starts = 0;
  #freezes = 0;

  constructor(options: MockDriverOptions) {
    this.#options = options;
  }

  get searchProgram(): string {
    return this.#options.searchBinary;
  }

  async fingerprint(): Promise<DriverProblem[]> {
    if (existsSync(this.#options.guestBinary)) return [];
    return [{ problem: "the sandboxes' init is not built", remedy: "node scripts/build-guest.mjs" }];
  }

  async prepare(): Promise<void> {
    mkdirSync(this.#instancesDir, { recursive: true, mode: 0o711 });
  }

  async create(spec: InstanceSpec, signal: AbortSignal): Promise<InstanceHandle> {
    checkDir(spec.id, spec.dir);
    const paths = instancePaths(spec.dir);
    const init = readInit(spec.dir);
    if (init !== undefined && isAlive(init)) return { id: spec.id, guestSocketPath: paths.socket };
    const added = [spec.dir, paths.driverDir].find((path) => !existsSync(path));
    try {
      return await this.#start(spec, signal);
    } catch (error) {
      if (added !== undefined) rmSync(added, { recursive: true, force: true });
      throw error;
    }
  }

  async restart(spec: InstanceSpec, signal: AbortSignal): Promise<InstanceHandle> {
    checkDir(spec.id, spec.dir);
    await endInit(spec.dir);
    return this.#start(spec, signal);
  }

  async setLimits(id: string): Promise<void> {
    this.#getInit(id);
  }

  async freeze(id: string, signal?: AbortSignal): Promise<void> {
    const init = this.#getInit(id);
    if (this.#options.faults?.failedFreezes?.includes(++this.#freezes)) {
      throw new AppError("internal", "This freeze was scripted to fail.");
    }
    if (!(await stopAll(init, signal)) && !signal?.aborted) {
      throw new AppError("timeout", "The instance did not freeze in time.");
    }
  }

  thaw(id: string): void {
    const init = readInit(this.#dirOf(id));
    if (init !== undefined) continueAll(init);
  }

  rouse(id: string): boolean {
    this.thaw(id);
    return false;
  }

  async destroy(id: string, dir: string): Promise<void> {
    checkDir(id, dir);
    await endInit(dir);
    rmSync(dir, { recursive: true, force: true });
    this.#dirs.delete(id);
  }

  async inspect(id: string): Promise<InstanceCondition> {
    const dir = this.#dirOf(id);
    const init = readInit(dir);
    const tree = init === undefined ? [] : readTree(init);
    const counts = {
      memoryBytes: tree.reduce((sum, { residentPages }) => sum + residentPages * pageBytes, 0),
      processCount: tree.length,
      oomKills: 0,
    };
    if (tree.length > 0) return { status: runningOf(tree).length === 0 ? "frozen" : "running", ...counts };
    return { status: existsSync(instancePaths(dir).driverDir) ? "dead" : "missing", ...counts };
  }

  countOomKills(): number {
    return 0;
  }

  countProcesses(): undefined {
    return undefined;
  }

  async listFound(): Promise<string[]> {
    if (!existsSync(this.#instancesDir)) return [];
    return readdirSync(this.#instancesDir).filter((id) => existsSync(instancePaths(this.#dirOf(id)).driverDir));
  }

  /** Lets go only: instances outlive the daemon. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer);
  }

  get #instancesDir(): string {
    return join(this.#options.dataDir, "instances");
  }

  #dirOf(id: string): string {
    return this.#dirs.get(id) ?? join(this.#instancesDir, id);
  }

  #getInit(id: string): InitProcess {
    const init = readInit(this.#dirOf(id));
    if (init === undefined) throw new AppError("not_found", "There is no such instance.");
    return init;
  }

  async #start({ id, dir }: InstanceSpec, signal: AbortSignal): Promise<InstanceHandle> {
    const { guestBinary, faults = {} } = this.#options;
    const paths = instancePaths(dir);
    this.#dirs.set(id, dir);
    mkdirSync(paths.driverDir, { recursive: true, mode: 0o700 });
    await delay(faults.startDelayMs ?? 0, undefined, { signal }).catch(() => {
      throw new AppError("unavailable", "Making the instance was given up.", { cause: signal.reason });
    });
    if (faults.failedStarts?.includes(++this.#starts)) {
      throw new AppError("internal", "This start was scripted to fail.");
    }
    await using listener = await listenAt(paths.socket);
    const init = await startInit(guestBinary, listener.fd);
    writeFileAtomic(paths.initFile, JSON.stringify(init));
    if (faults.dieAfterMs !== undefined) this.#dieLater(init, faults.dieAfterMs);
    return { id, guestSocketPath: paths.socket };
  }

  #dieLater(init: InitProcess, afterMs: number): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      // All of it, as the kernel ends a PID namespace with its init.
      void killAll(init);
    }, afterMs);
    this.#timers.add(timer.unref());
  }
}

async function startInit(guestBinary: string, listenFd: number): Promise<InitProcess> {
  // A session of its own: signals from this daemon's terminal do not reach it, and it lives on when the daemon ends.
  const child = spawn(guestBinary, [], {
    stdio: ["ignore", "ignore", "ignore", listenFd],
    env: { PATH: "/usr/local/bin:/usr/bin:/bin" },
    cwd: "/",
    detached: true,
  });
  await new Promise<void>((resolve, reject) => {
    child.once("spawn", resolve).once("error", (cause) => {
      reject(new AppError("internal", "The init could not be started.", { cause }));
    });
  });
  child.unref();
  const started = readProcess(child.pid!);
  if (started === undefined) throw new AppError("internal", "The init ended at once.");
  return { pid: started.pid, startedAt: started.startedAt };
}

async function endInit(dir: string): Promise<void> {
  const init = readInit(dir);
  if (init === undefined) return;
  if (!(await killAll(init))) throw new AppError("timeout", "Processes of the instance did not die in time.");
  const { initFile, socket } = instancePaths(dir);
  for (const file of [initFile, socket, `${socket}.new`]) rmSync(file, { force: true });
}

function readInit(dir: string): InitProcess | undefined {
  try {
    return JSON.parse(readFileSync(instancePaths(dir).initFile, "utf8")) as InitProcess;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

function instancePaths(dir: string): { driverDir: string; socket: string; initFile: string } {
  const driverDir = join(dir, "driver");
  return { driverDir, socket: join(driverDir, "guest.sock"), initFile: join(driverDir, "init.json") };
}

function checkDir(id: string, dir: string): void {
  if (/^[a-z0-9]{8,32}$/.test(id) && isAbsolute(dir) && basename(dir) === id) return;
  throw new AppError("invalid_request", "An instance's directory is absolute and named after its id.");
}
