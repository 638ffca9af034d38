// Watches which ports processes of one sandbox listen on and tells callbacks: only while the sandbox is awake anyway.
import { AppError, toAppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { Machine } from "../machine.ts";
import { type Callback, parseCallback, postFromInside } from "./callback.ts";
import { beginOf } from "./inside-process.ts";
import { MonitorFile, type MonitorRecord } from "./monitor-file.ts";

export const monitorsMax = 16;
const intervalMs = 1_000;
const triesMax = 3;
/** Ports of one process that wait to be told; what comes beyond is found again at a later look. */
const untoldMax = 64;
/** How often one monitor's failures are logged. */
const logPauseMs = 60_000;

export type MonitorRequest = { pid: number; began: string; url: string };

type Monitor = MonitorRequest & {
  callback: Callback;
  /** Ports that were told, or given up on, and are still listened on. */
  told: Set<number>;
  tries: Map<number, number>;
  /** Ports are being told; the next look leaves that alone. */
  isTelling: boolean;
  /** Ends what is under way for it. */
  stop: AbortController;
  loggedMs: number;
};

/**
 * One look at a time, and the next one a pause after it: whoever begins, stops or loses monitors meanwhile never starts a second
 * round. Callbacks are asked beside the looks, each monitor's one after the other, so that one that is slow delays no other.
 */
export class PortMonitors implements Disposable {
  readonly #machine: Machine;
  readonly #log: Logger;
  readonly #ended: AbortSignal;
  readonly #file: MonitorFile;
  readonly #monitors = new Map<number, Monitor>();
  #startCount: number;
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;
  /** The file is behind. */
  #isChanged = false;

  constructor(machine: Machine, log: Logger, ended: AbortSignal) {
    this.#machine = machine;
    this.#log = log;
    this.#ended = ended;
    this.#file = new MonitorFile(machine);
    this.#startCount = machine.startCount;
    try {
      for (const record of this.#file.load().slice(0, monitorsMax)) this.#add(record);
    } catch (error) {
      log.error({ err: error }, "the monitors of ports cannot be read and are left out");
    }
    this.#lookIn(0);
  }

  /** Another callback for the same process takes the place of the first. */
  start(request: MonitorRequest): void {
    if (this.#machine.startCount !== this.#startCount) this.guestLost();
    const before = this.#monitors.get(request.pid);
    if (before === undefined && this.#monitors.size >= monitorsMax) {
      throw new AppError(
        "rate_limited",
        `The ports of ${monitorsMax} processes are monitored already; stop one first.`,
      );
    }
    before?.stop.abort();
    this.#add({ ...request, told: [] });
    try {
      this.#save();
    } catch (error) {
      this.#monitors.delete(request.pid);
      throw error;
    }
    this.#lookIn(0);
  }

  /** Whether there was one. */
  stop(pid: number): boolean {
    const monitor = this.#monitors.get(pid);
    if (monitor === undefined) return false;
    this.#forget(monitor);
    this.#save();
    return true;
  }

  /** The processes are gone, and their numbers will be others'. */
  guestLost(): void {
    this.#startCount = this.#machine.startCount;
    for (const monitor of this.#monitors.values()) this.#forget(monitor);
    this.#trySave();
  }

  /** The next daemon goes on. */
  [Symbol.dispose](): void {
    for (const { stop } of this.#monitors.values()) stop.abort();
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #add({ pid, began, url, told }: MonitorRecord): void {
    const monitor: Monitor = {
      pid,
      began,
      url,
      callback: parseCallback(url),
      told: new Set(told),
      tries: new Map(),
      isTelling: false,
      stop: new AbortController(),
      loggedMs: Number.NEGATIVE_INFINITY,
    };
    this.#monitors.set(pid, monitor);
  }

  #forget(monitor: Monitor): void {
    monitor.stop.abort();
    if (this.#monitors.get(monitor.pid) !== monitor) return;
    this.#monitors.delete(monitor.pid);
    this.#isChanged = true;
  }

  /** After its end another session may own the file. */
  #save(): void {
    this.#isChanged = false;
    if (this.#ended.aborted) return;
    this.#file.save(
      [...this.#monitors.values()].map(({ pid, began, url, told }) => ({ pid, began, url, told: [...told] })),
    );
  }

  #trySave(): void {
    if (!this.#isChanged) return;
    try {
      this.#save();
    } catch (error) {
      this.#isChanged = true;
      this.#log.warn({ err: error }, "the monitors of ports could not be written; it is tried again");
    }
  }

  #lookIn(ms: number): void {
    if (this.#timer !== undefined || this.#isLooking || this.#monitors.size === 0 || this.#ended.aborted) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#isLooking = true;
      this.#lookAtAll()
        .catch((error: unknown) => this.#log.debug({ err: error }, "ports could not be looked at"))
        .finally(() => {
          this.#isLooking = false;
          this.#trySave();
          this.#lookIn(intervalMs);
        });
    }, ms);
    this.#timer.unref();
  }

  async #lookAtAll(): Promise<void> {
    if (this.#machine.startCount !== this.#startCount) return this.guestLost();
    for (const monitor of [...this.#monitors.values()]) {
      if (this.#isCutOff(monitor)) continue;
      await this.#look(monitor);
    }
  }

  /** Asking would wait for somebody to wake the sandbox, or start it anew; or nobody wants to know any more. */
  #isCutOff({ stop }: Monitor): boolean {
    return this.#machine.isAsleep || this.#ended.aborted || stop.signal.aborted;
  }

  async #look(monitor: Monitor): Promise<void> {
    const { pid, told, tries } = monitor;
    const sockets = await this.#machine.guest.sockets(pid);
    const listening = new Set(
      sockets.filter(({ state, protocol }) => protocol === "tcp" && state === "LISTEN").map((one) => one.localPort),
    );
    if (this.#isCutOff(monitor)) return;
    const untold = [...listening].filter((port) => !told.has(port)).slice(0, untoldMax);
    const isSure = sockets.length > 0 && untold.length === 0;
    if (!isSure && (await beginOf(this.#machine, pid)) !== monitor.began) return this.#forget(monitor);
    for (const port of told) if (!listening.has(port) && told.delete(port)) this.#isChanged = true;
    for (const port of tries.keys()) if (!listening.has(port)) tries.delete(port);
    if (untold.length > 0 && !monitor.isTelling) void this.#tellAll(monitor, untold);
  }

  /** Stops at the first that is not taken: a server that hangs is asked once a look. Never rejects. */
  async #tellAll(monitor: Monitor, ports: readonly number[]): Promise<void> {
    monitor.isTelling = true;
    for (const port of ports) {
      if (this.#isCutOff(monitor) || !(await this.#tell(monitor, port))) break;
    }
    monitor.isTelling = false;
    this.#trySave();
  }

  async #tell(monitor: Monitor, port: number): Promise<boolean> {
    const { pid, callback, told, tries, stop } = monitor;
    try {
      const ended = AbortSignal.any([stop.signal, this.#ended]);
      await postFromInside(this.#machine.guest, callback, { pid, port }, ended);
      told.add(port);
      this.#isChanged = true;
      return true;
    } catch (error) {
      // Whoever fell asleep meanwhile is told when awake.
      if (this.#isCutOff(monitor)) return false;
      this.#logFailure(monitor, port, error);
      const failures = (tries.get(port) ?? 0) + 1;
      tries.set(port, failures);
      if (failures >= triesMax) {
        told.add(port);
        this.#isChanged = true;
      }
      return false;
    }
  }

  /** Without the URL, which may be a secret. */
  #logFailure(monitor: Monitor, port: number, error: unknown): void {
    const nowMs = performance.now();
    if (nowMs - monitor.loggedMs < logPauseMs) return;
    monitor.loggedMs = nowMs;
    const { code, message } = toAppError(error);
    this.#log.info({ pid: monitor.pid, port, code, reason: message }, "a callback did not take the news of a port");
  }
}
