// One process of a sandbox: its record, its journal, who waits for its end, and what keeps the sandbox awake for it.
import { AppError } from "../../core/errors.ts";
import type { Machine, ProcessEnd } from "../machine.ts";
import type { Journal } from "./journal.ts";
import { Pace } from "./pace.ts";
import { type ProcessRecord, saveRecord } from "./process-record.ts";

const signalNumbers = { stop: 15, kill: 9 } as const;
const sigkill = 9;
/** Timers above 2^31 ms fire at once in Node, so long waits are taken in pieces. */
const timerMaxMs = 86_400_000;

export class Process {
  readonly record: ProcessRecord;
  readonly journal: Journal;
  readonly pace = new Pace();
  readonly #machine: Machine;
  readonly #directory: string;
  readonly #onEnded: (process: Process) => void;
  #awake: Disposable | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    record: ProcessRecord,
    journal: Journal,
    owner: { machine: Machine; directory: string; onEnded: (process: Process) => void },
  ) {
    this.record = record;
    this.journal = journal;
    this.#machine = owner.machine;
    this.#directory = owner.directory;
    this.#onEnded = owner.onEnded;
  }

  get token(): string {
    return this.record.token;
  }

  get hasEnded(): boolean {
    return this.record.phase === "ended";
  }

  /** The guest runs it under this pid; its end may have been told before. */
  started(pid: number): void {
    this.record.pid = pid;
    if (this.record.phase === "reserved") this.record.phase = "running";
    this.save();
    this.keepAwake();
    this.journal.changed();
  }

  /** Records the end once; later tellings of it change nothing. The journal must have been flushed. */
  ended(end: ProcessEnd | undefined): void {
    if (this.hasEnded) return;
    const { record, journal } = this;
    const ended: ProcessRecord = {
      ...record,
      phase: "ended",
      completedAtMs: Date.now(),
      exitCode: end === undefined ? undefined : "code" in end ? end.code : 128 + end.signal,
      status: nameEnd(end, record.endedBy),
      journal: { segments: journal.segments, written: journal.written },
    };
    try {
      saveRecord(this.#directory, ended);
    } catch (error) {
      // An end that was observed stays with the guest until there is room to record it; that of a lost process is plain to the next daemon.
      if (end !== undefined) throw error;
    }
    Object.assign(record, ended);
    this.release();
    journal.close().catch(() => undefined);
    this.#onEnded(this);
    journal.changed();
  }

  /** Sends SIGTERM or SIGKILL to the process group; `not_found` when it does not run. */
  async end(by: "stop" | "kill"): Promise<void> {
    if (this.record.phase !== "running")
      throw new AppError("not_found", `Process '${this.record.name}' is not running.`);
    const before = this.record.endedBy;
    if (before !== "kill") {
      this.record.endedBy = by;
      this.save();
    }
    try {
      await this.#machine.guest.signal(this.token, signalNumbers[by]);
    } catch (error) {
      if (!this.hasEnded) {
        this.record.endedBy = before;
        this.save();
      }
      throw error;
    }
  }

  /** Resolves at its end; rejects with the signal's reason when that comes first. */
  async waitForEnd(signal: AbortSignal): Promise<void> {
    while (!this.hasEnded) await waitForChange(this, signal);
  }

  save(): void {
    saveRecord(this.#directory, this.record);
  }

  /** A running `keepAlive` process holds the sandbox awake and is killed at its deadline. */
  keepAwake(): void {
    if (!this.record.keepAlive || this.record.phase !== "running" || this.#awake !== undefined) return;
    this.#awake = this.#machine.holdAwake();
    this.#armDeadline();
  }

  release(): void {
    clearTimeout(this.#timer);
    this.#awake?.[Symbol.dispose]();
    this.#awake = undefined;
  }

  #armDeadline(): void {
    const { deadlineMs } = this.record;
    if (deadlineMs === undefined) return;
    const remainingMs = deadlineMs - Date.now();
    this.#timer = setTimeout(
      () => {
        if (deadlineMs > Date.now()) return this.#armDeadline();
        this.end("kill").catch(() => {
          // Not reachable now or already gone: tried again until the end is known.
          if (!this.hasEnded && this.#awake !== undefined) this.#timer = setTimeout(() => this.#armDeadline(), 1_000);
        });
      },
      Math.max(0, Math.min(remainingMs, timerMaxMs)),
    );
  }
}

function nameEnd(end: ProcessEnd | undefined, endedBy: ProcessRecord["endedBy"]): ProcessRecord["status"] {
  if (end === undefined) return "killed";
  if (endedBy === "stop") return "stopped";
  if (endedBy === "kill") return "killed";
  if ("signal" in end) return end.signal === sigkill ? "killed" : "failed";
  return end.code === 0 ? "completed" : "failed";
}

type WaitOptions = {
  /** The version already seen: a change since then counts. */
  since?: number;
  timeoutMs?: number;
};

/** Resolves at the next change of the process or its output, or after `timeoutMs`; rejects with the signal's reason. */
export function waitForChange(
  { journal }: Process,
  signal: AbortSignal,
  { since = journal.version, timeoutMs }: WaitOptions = {},
): Promise<"changed" | "timeout"> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    if (journal.version !== since) return resolve("changed");
    const settle = (end: () => void): void => {
      forget();
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
      end();
    };
    const onAbort = (): void => settle(() => reject(signal.reason));
    const forget = journal.onChange(() => settle(() => resolve("changed")));
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => settle(() => resolve("timeout")), timeoutMs);
    signal.addEventListener("abort", onAbort, { once: true });
  });
}
