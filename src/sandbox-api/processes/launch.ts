// Starts the runs of processes inside: the first one for whoever asks, later ones after a failure; none of them twice.
import { AppError } from "../../core/errors.ts";
import type { Machine, SpawnRequest } from "../machine.ts";
import { unknownCause } from "./cause.ts";
import type { Process } from "./process.ts";
import type { ProcessRecord } from "./process-record.ts";

const spawnAttempts = 3;
/** How long until what did not work, or would wake the sandbox, is looked at again. */
const retryMs = 1_000;

/** What a run is started with. */
export type Run = Pick<SpawnRequest, "argv" | "workingDir" | "environment">;

export function sealRun(machine: Machine, token: string, run: Run): string {
  return machine.stateKey.seal(JSON.stringify(run), token);
}

export class Launcher {
  readonly #machine: Machine;
  readonly #starting = new Map<string, Promise<void>>();
  readonly #timers = new Map<string, NodeJS.Timeout>();
  /** After it another session may own the records. */
  #isClosed = false;

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  /** Whether a start is under way whose outcome is told to somebody. */
  isStarting({ token }: Process): boolean {
    return this.#starting.has(token);
  }

  /** The first run. Everybody who asks meanwhile gets the same outcome. */
  start(process: Process, run: Run): Promise<void> {
    const underWay = this.#starting.get(process.token);
    if (underWay !== undefined) return underWay;
    // Known as starting before anything is sent: what happens meanwhile asks for it.
    const started = Promise.resolve()
      .then(() => this.#start(process, run))
      .finally(() => this.#starting.delete(process.token));
    this.#starting.set(process.token, started);
    return started;
  }

  /** Begins the next run when its pause is over, as soon as the sandbox is awake: a process that fails does not keep it from sleeping. */
  schedule(process: Process): void {
    const dueMs = process.record.restarts?.dueMs ?? Date.now();
    this.#arm(process, Math.max(0, Math.min(dueMs - Date.now(), 60_000)));
  }

  forget({ token }: Process): void {
    clearTimeout(this.#timers.get(token));
    this.#timers.delete(token);
  }

  close(): void {
    this.#isClosed = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }

  /** The token makes repeating safe when an answer was lost, as long as the machine is the same. */
  async #start(process: Process, run: Run): Promise<void> {
    const { record, runToken } = process;
    for (let attempt = 1; ; attempt += 1) {
      if (isUncertain(record, this.#machine)) return process.ended(undefined, { cause: unknownCause });
      try {
        const { pid } = await this.#machine.guest.spawn(spawnRequest(record, runToken, run));
        return process.started(pid, runToken);
      } catch (error) {
        const mayRepeat = error instanceof AppError && error.code === "unavailable" && attempt < spawnAttempts;
        if (!mayRepeat || process.hasEnded) throw error;
        // Which machine the next attempt would reach has to be known before it is made.
        if (record.idempotency !== undefined) await this.#machine.guest.files.stat("/").catch(() => undefined);
      }
    }
  }

  #arm(process: Process, delayMs: number): void {
    if (this.#isClosed) return;
    this.forget(process);
    const timer = setTimeout(() => {
      this.#timers.delete(process.token);
      void this.#respawn(process).catch(() => undefined);
    }, delayMs);
    timer.unref();
    this.#timers.set(process.token, timer);
  }

  async #respawn(process: Process): Promise<void> {
    const { record, runToken } = process;
    const { restarts } = record;
    if (restarts === undefined || (record.phase !== "pausing" && record.phase !== "respawning")) return;
    if (record.endedBy !== undefined) return process.endInPause();
    if ((restarts.dueMs ?? 0) > Date.now()) return this.schedule(process);
    if (this.#machine.isAsleep) return this.#arm(process, retryMs);
    try {
      record.phase = "respawning";
      restarts.runStartedAtMs = Date.now();
      process.save();
      const run = JSON.parse(this.#machine.stateKey.open(restarts.sealedRun, record.token)) as Run;
      const { pid } = await this.#machine.guest.spawn(spawnRequest(record, runToken, run));
      if (this.#isClosed) return;
      process.started(pid, runToken);
    } catch (error) {
      if (this.#isClosed) return;
      if (record.phase !== "respawning" || process.runToken !== runToken) return;
      const isRefused = error instanceof AppError && (error.code === "unprocessable" || error.code === "not_found");
      if (isRefused) process.endInPause(`It could not be started again: ${error.message}`);
      else this.#arm(process, retryMs);
    }
  }
}

/** Whether an earlier attempt of a start that must happen once may have run in a machine that is gone. */
export function isUncertain({ idempotency, startCount }: ProcessRecord, machine: Machine): boolean {
  return idempotency !== undefined && startCount !== machine.startCount;
}

function spawnRequest({ stdin }: ProcessRecord, token: string, run: Run): SpawnRequest {
  return { token, ...run, ...(stdin === true ? { stdin: "pipe" } : {}) };
}
