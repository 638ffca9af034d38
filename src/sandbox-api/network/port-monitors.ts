// Watches which ports processes of one sandbox listen on and tells servers inside: only while the sandbox is awake anyway.
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { Machine } from "../machine.ts";
import { type Callback, postInside } from "./callback.ts";

export const monitorsMax = 16;
const intervalMs = 1_000;
const triesMax = 3;
/** Ports that are found while others are still to be told; what comes beyond is found again at the next look. */
const untoldMax = 64;

type Monitor = {
  pid: number;
  callback: Callback;
  /** Ports that were told, or given up on, and are still listened on. */
  told: Set<number>;
  tries: Map<number, number>;
};

export class PortMonitors implements Disposable {
  readonly #machine: Machine;
  readonly #log: Logger;
  readonly #ended: AbortSignal;
  readonly #monitors = new Map<number, Monitor>();
  #timer: NodeJS.Timeout | undefined;

  constructor(machine: Machine, log: Logger, ended: AbortSignal) {
    this.#machine = machine;
    this.#log = log;
    this.#ended = ended;
  }

  /** Another callback for the same process takes the place of the first. */
  start(pid: number, callback: Callback): void {
    if (!this.#monitors.has(pid) && this.#monitors.size >= monitorsMax) {
      throw new AppError(
        "rate_limited",
        `The ports of ${monitorsMax} processes are monitored already; stop one first.`,
      );
    }
    this.#monitors.set(pid, { pid, callback, told: new Set(), tries: new Map() });
    if (this.#timer === undefined) this.#lookIn(0);
  }

  /** Whether there was one. */
  stop(pid: number): boolean {
    return this.#monitors.delete(pid);
  }

  /** The processes are gone, and their numbers will be others'. */
  [Symbol.dispose](): void {
    this.#monitors.clear();
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #lookIn(ms: number): void {
    this.#timer = setTimeout(() => {
      this.#lookAtAll()
        .catch((error: unknown) => this.#log.debug({ err: error }, "ports could not be looked at"))
        .finally(() => {
          const goesOn = this.#monitors.size > 0 && !this.#ended.aborted;
          if (goesOn) this.#lookIn(intervalMs);
          else this.#timer = undefined;
        });
    }, ms);
    this.#timer.unref();
  }

  async #lookAtAll(): Promise<void> {
    for (const monitor of [...this.#monitors.values()]) {
      // Asking would wait for somebody to wake it.
      if (this.#machine.isAsleep || this.#ended.aborted) return;
      await this.#look(monitor);
    }
  }

  async #look(monitor: Monitor): Promise<void> {
    const { pid, callback, told, tries } = monitor;
    const { guest } = this.#machine;
    const sockets = await guest.sockets(pid);
    const listening = new Set(
      sockets.filter(({ state, protocol }) => protocol === "tcp" && state === "LISTEN").map((one) => one.localPort),
    );
    if (sockets.length === 0 && !(await isProcess(this.#machine, pid))) return this.#forget(monitor);
    for (const port of told) if (!listening.has(port)) told.delete(port);
    for (const port of tries.keys()) if (!listening.has(port)) tries.delete(port);
    const untold = [...listening].filter((port) => !told.has(port)).slice(0, untoldMax);
    for (const port of untold) {
      if (this.#monitors.get(pid) !== monitor || this.#machine.isAsleep || this.#ended.aborted) return;
      await this.#tell(monitor, port, () => postInside(guest, callback, { pid, port }, this.#ended));
    }
  }

  async #tell({ pid, told, tries }: Monitor, port: number, post: () => Promise<void>): Promise<void> {
    try {
      await post();
      told.add(port);
    } catch (error) {
      // Whoever fell asleep meanwhile is told when awake.
      if (this.#machine.isAsleep) return;
      const failures = (tries.get(port) ?? 0) + 1;
      tries.set(port, failures);
      if (failures < triesMax) return;
      told.add(port);
      this.#log.debug({ pid, port, err: error }, "nobody took the news of a port");
    }
  }

  #forget(monitor: Monitor): void {
    if (this.#monitors.get(monitor.pid) === monitor) this.#monitors.delete(monitor.pid);
  }
}

export async function isProcess({ guest }: Machine, pid: number): Promise<boolean> {
  try {
    await guest.files.stat(`/proc/${pid}`);
    return true;
  } catch (error) {
    if (error instanceof AppError && error.code === "not_found") return false;
    throw error;
  }
}
