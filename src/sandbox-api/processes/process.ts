// One process of a sandbox: its record, its journal, who waits for its end, and what keeps the sandbox awake for it.
import { AppError } from "../../core/errors.ts";
import type { Machine, ProcessEnd } from "../machine.ts";
import { causeOf, exitCodeOf, statusOf } from "./cause.ts";
import type { Journal } from "./journal.ts";
import { Pace } from "./pace.ts";
import { type ProcessRecord, runToken, saveRecord } from "./process-record.ts";
import { nextRun } from "./restart.ts";
import { Turns } from "./turns.ts";

const signalNumbers = { stop: 15, kill: 9, timeout: 9 } as const;
export type EndedBy = keyof typeof signalNumbers;
/** Timers above 2^31 ms fire at once in Node, so long waits are taken in pieces. */
const timerMaxMs = 86_400_000;

export class Process {
  readonly record: ProcessRecord;
  readonly journal: Journal;
  readonly pace = new Pace();
  /** Whoever writes to its input. */
  readonly inputTurns = new Turns();
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

  /** Of the present run. */
  get runToken(): string {
    return runToken(this.record);
  }

  get hasEnded(): boolean {
    return this.record.phase === "ended";
  }

  /** The guest runs it under this pid; its end may have been told before, and the next run have begun. */
  started(pid: number, token: string): void {
    const { record } = this;
    record.pid ??= pid;
    if (token === this.runToken && (record.phase === "reserved" || record.phase === "respawning")) {
      record.phase = "running";
    }
    if (record.phase === "running") {
      record.guestPid = pid;
      record.startCount = this.#machine.startCount;
    }
    this.#saveIfRoom();
    this.keepAwake();
    this.journal.changed();
    // It was to end while it was being started.
    if (record.phase === "running" && record.restarts !== undefined && record.endedBy !== undefined) {
      this.#signal(record.endedBy).catch(() => undefined);
    }
  }

  /** Records the end once; later tellings of it change nothing. The journal must have been flushed. */
  ended(end: ProcessEnd | undefined, outcome: Partial<ProcessRecord> = {}): void {
    if (this.hasEnded) return;
    const { record, journal } = this;
    const ended: ProcessRecord = {
      ...record,
      phase: "ended",
      completedAtMs: Date.now(),
      exitCode: exitCodeOf(end),
      status: statusOf(end, record.endedBy),
      cause: causeOf(end, record.endedBy),
      journal: { segments: journal.segments, written: journal.written },
      ...outcome,
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

  /** It has failed and is run again after a pause. From here on the ended run's token means nothing any more. */
  async pause(end: ProcessEnd): Promise<void> {
    const { record, journal } = this;
    const restarts = nextRun(record.restarts!, end, journal);
    const pausing: ProcessRecord = {
      ...record,
      phase: "pausing",
      exitCode: exitCodeOf(end),
      restarts,
      isInputClosed: false,
    };
    saveRecord(this.#directory, pausing);
    Object.assign(record, pausing);
    await this.writeMarker();
  }

  /** A crash may have come between the record and the marker; what is there already is skipped by its offset. */
  async writeMarker(): Promise<void> {
    const { restarts } = this.record;
    if (restarts === undefined || restarts.marker === "") return;
    const marker = Buffer.from(restarts.marker);
    await this.journal.append("stdout", restarts.base.stdout - marker.length, marker);
  }

  /** Sends SIGTERM or SIGKILL to the process group, and ends what waits to be run again; `not_found` when it does not run. */
  async end(by: EndedBy): Promise<void> {
    const { record } = this;
    if (this.hasEnded || record.phase === "reserved")
      throw new AppError("not_found", `Process '${record.name}' is not running.`);
    const before = record.endedBy;
    if (before === undefined || before === "stop") {
      record.endedBy = by;
      this.#saveIfRoom();
    }
    if (record.phase === "pausing") return this.endInPause();
    try {
      await this.#signal(by);
    } catch (error) {
      // What was to be run again is not, however close its end was; the end comes, or the start that is under way learns of it.
      if (record.restarts !== undefined && error instanceof AppError && error.code === "not_found") return;
      if (!this.hasEnded) {
        record.endedBy = before;
        this.#saveIfRoom();
      }
      throw error;
    }
  }

  /** With what is known of its last run. */
  endInPause(message?: string): void {
    const { exitCode = 1, endedBy } = this.record;
    const cause = causeOf({ code: exitCode }, endedBy);
    this.ended({ code: exitCode }, message === undefined ? {} : { cause: { ...cause, message } });
  }

  #signal(by: EndedBy): Promise<void> {
    return this.#machine.guest.signal(this.runToken, signalNumbers[by]);
  }

  /** Whether somebody at whose pace it runs is still to read some of what would be dropped. */
  isUnread(dropped: "oldest" | "all"): boolean {
    const [, next] = this.journal.segments;
    const end = dropped === "oldest" && next !== undefined ? next.start : this.journal.written;
    return this.pace.slowest() < end.stdout + end.stderr;
  }

  /** Resolves at its end; rejects with the signal's reason when that comes first. */
  async waitForEnd(signal: AbortSignal): Promise<void> {
    while (!this.hasEnded) await waitForChange(this, signal);
  }

  save(): void {
    saveRecord(this.#directory, this.record);
  }

  /**
   * What is true already must not fail because it cannot be written down: the guest tells the next daemon what runs, and the record
   * of the end says who asked for it.
   */
  #saveIfRoom(): void {
    try {
      this.save();
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== "unavailable") throw error;
    }
  }

  /** A running `keepAlive` process holds the sandbox awake and is killed at its deadline. */
  keepAwake(): void {
    const { keepAlive, phase } = this.record;
    if (!keepAlive || phase === "reserved" || phase === "ended" || this.#awake !== undefined) return;
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
        this.end("timeout").catch(() => {
          // Not reachable now or already gone: tried again until the end is known.
          if (!this.hasEnded && this.#awake !== undefined) this.#timer = setTimeout(() => this.#armDeadline(), 1_000);
        });
      },
      Math.max(0, Math.min(remainingMs, timerMaxMs)),
    );
  }
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
