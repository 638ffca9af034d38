// All processes of one sandbox: starting, finding, ending, and taking in what the guest tells about them.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { GuestProcess, Machine, ProcessSink } from "../machine.ts";
import { unknownCause } from "./cause.ts";
import type { IdempotencyKey } from "./idempotency.ts";
import { Journal, type JournalState } from "./journal.ts";
import { listSegments, loadJournal, restoreJournal } from "./journal-load.ts";
import { isUncertain, Launcher } from "./launch.ts";
import { newRecord, type StartRequest } from "./new-record.ts";
import { Process } from "./process.ts";
import { loadRecords, type ProcessRecord, removeRecord, saveRecord } from "./process-record.ts";
import { isRunAgain } from "./restart.ts";

export type ProcessLimits = {
  /** Ended processes whose record and output are kept. */
  endedMax: number;
  runningMax: number;
  /** Output of all processes of a sandbox together; the oldest goes first, what a paced follower is still to read last. */
  journalsMaxBytes: number;
};

export const processLimits: ProcessLimits = {
  endedMax: 1_000,
  runningMax: 4_096,
  journalsMaxBytes: 256 * 1024 * 1024,
};

/** What followers are still to read may take the journals so many times beyond what they keep otherwise. */
const unreadFactor = 4;

/** `isRepeated`: an earlier request with the same key had started it. */
export type Started = { process: Process; isRepeated: boolean };

export class Processes implements AsyncDisposable {
  readonly sink: ProcessSink = {
    output: (token, stream, offset, chunk) => this.#output(token, stream, offset, chunk),
    pace: (token) => this.#pace(token),
    exit: (token, end) => this.#exit(token, end),
  };
  readonly #machine: Machine;
  readonly #log: Logger;
  readonly #limits: ProcessLimits;
  readonly #directory: string;
  /** By token, oldest first. */
  readonly #processes = new Map<string, Process>();
  /** By the token of the present run. */
  readonly #byRun = new Map<string, Process>();
  readonly #byKey = new Map<string, Process>();
  readonly #launcher: Launcher;
  #journalsBytes = 0;
  #disposed = false;

  constructor(machine: Machine, log: Logger, limits = processLimits) {
    this.#machine = machine;
    this.#limits = limits;
    this.#log = log;
    this.#launcher = new Launcher(machine);
    this.#directory = join(machine.stateDir, "processes");
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
    this.#load();
  }

  /** Oldest first; those still being started are left out. */
  list(): Process[] {
    return [...this.#processes.values()].filter(({ record }) => record.phase !== "reserved");
  }

  /** By pid, else by name; of several the newest. */
  get(identifier: string): Process {
    const newestFirst = this.list().reverse();
    const found =
      newestFirst.find(({ record }) => String(record.pid) === identifier) ??
      newestFirst.find(({ record }) => record.name === identifier);
    if (found === undefined) throw new AppError("not_found", `Process '${identifier}' was not found.`);
    return found;
  }

  /** Reserves on disk, spawns, records: a crash in between never runs anything twice nor forgets what runs. */
  async start(request: StartRequest, key?: IdempotencyKey): Promise<Started> {
    const known = key === undefined ? undefined : this.#findByKey(key);
    const process = known ?? this.#reserve(request, key);
    try {
      if (process.record.phase === "reserved") await this.#launcher.start(process, request);
      return { process, isRepeated: known !== undefined };
    } catch (error) {
      // Whether it runs is unknown after these: the record stays until the guest tells.
      const isUnknown = error instanceof AppError && (error.code === "unavailable" || error.code === "timeout");
      if (!isUnknown && process.record.phase === "reserved") this.#forget(process);
      throw error;
    }
  }

  async guestConnected(known: readonly GuestProcess[]): Promise<void> {
    const pids = new Map(known.map(({ token, pid }) => [token, pid]));
    for (const process of [...this.#processes.values()]) {
      if (process.hasEnded || this.#launcher.isStarting(process)) continue;
      const { record, runToken } = process;
      const pid = pids.get(runToken);
      const isWaiting = record.phase === "pausing" || record.phase === "respawning";
      if (pid !== undefined) process.started(pid, runToken);
      else if (record.phase === "reserved") this.#giveUp(process);
      else if (isWaiting && record.startCount === this.#machine.startCount) this.#launcher.schedule(process);
      else await this.#lose(process);
    }
  }

  async guestLost(): Promise<void> {
    for (const process of [...this.#processes.values()]) {
      if (process.hasEnded) continue;
      if (process.record.phase !== "reserved") await this.#lose(process);
      else if (!this.#launcher.isStarting(process)) this.#giveUp(process, true);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    this.#launcher.close();
    for (const process of this.#processes.values()) {
      process.release();
      await process.journal.close();
    }
  }

  #findByKey({ fingerprint, request }: IdempotencyKey): Process | undefined {
    const process = this.#byKey.get(fingerprint);
    if (process === undefined || process.record.idempotency?.request === request) return process;
    throw new AppError("unprocessable", "The Idempotency-Key was used with another request in this sandbox.");
  }

  #reserve(request: StartRequest, key: IdempotencyKey | undefined): Process {
    const { name } = request;
    const running = [...this.#processes.values()].filter((process) => !process.hasEnded);
    const { runningMax } = this.#limits;
    if (running.length >= runningMax) {
      throw new AppError("rate_limited", `The sandbox runs ${runningMax} processes already.`);
    }
    if (name !== undefined && running.some(({ record }) => record.name === name)) {
      throw new AppError("invalid_request", `process with name '${name}' already exists and is running`);
    }
    const record = newRecord(request, key, this.#machine);
    saveRecord(this.#directory, record);
    return this.#add(record, { segments: [], written: { stdout: 0, stderr: 0 } });
  }

  async #output(token: string, stream: "stdout" | "stderr", offset: number, chunk: Buffer): Promise<void> {
    this.#checkOpen();
    const process = this.#byRun.get(token);
    // Output of a process nobody can ask for, or whose end is recorded, has nowhere to go.
    if (process === undefined || process.hasEnded) return;
    const { journal, record } = process;
    await journal.append(stream, (record.restarts?.base[stream] ?? 0) + offset, chunk);
  }

  /** The guest sends no more before output is acknowledged, so the process blocks as it would on a full pipe. */
  async #pace(token: string): Promise<void> {
    const process = this.#byRun.get(token);
    if (process === undefined || process.hasEnded) return;
    await process.pace.keep(process.journal.written.stdout + process.journal.written.stderr);
  }

  async #exit(token: string, end: Parameters<ProcessSink["exit"]>[1]): Promise<void> {
    this.#checkOpen();
    const process = this.#byRun.get(token);
    // The record of what was run again knows already.
    if (process === undefined) return this.#log.debug({ process: token }, "a run without a record ended");
    await process.journal.flush();
    if (process.hasEnded || process.runToken !== token) return;
    if (!isRunAgain(process.record, end)) return process.ended(end);
    const paused = process.pause(end);
    this.#byRun.delete(token);
    this.#byRun.set(process.runToken, process);
    await paused;
    this.#launcher.schedule(process);
  }

  /** The guest does not know it: it was never started, unless it was in a machine that is gone. */
  #giveUp(process: Process, machineIsGone = false): void {
    const isKeyed = process.record.idempotency !== undefined;
    if ((machineIsGone && isKeyed) || isUncertain(process.record, this.#machine)) {
      process.ended(undefined, { cause: unknownCause });
    } else this.#forget(process);
  }

  /** After disposal nothing may be acknowledged: another session may own the files. */
  #checkOpen(): void {
    if (this.#disposed) throw new AppError("unavailable", "The sandbox is being handed over; nothing was taken.");
  }

  async #lose(process: Process): Promise<void> {
    await process.journal.flush();
    process.ended(undefined);
  }

  #add(record: ProcessRecord, journal: JournalState): Process {
    const { token } = record;
    const process: Process = new Process(
      record,
      new Journal({ directory: this.#directory, token }, journal, {
        log: this.#log,
        onWritten: (bytes) => this.#account(bytes),
      }),
      { machine: this.#machine, directory: this.#directory, onEnded: () => this.#prune() },
    );
    this.#processes.set(token, process);
    this.#byRun.set(process.runToken, process);
    if (record.idempotency !== undefined) this.#byKey.set(record.idempotency.key, process);
    this.#journalsBytes += process.journal.bytes;
    return process;
  }

  #forget(process: Process): void {
    if (this.#processes.get(process.token) !== process) return;
    this.#processes.delete(process.token);
    this.#byRun.delete(process.runToken);
    const { idempotency } = process.record;
    if (idempotency !== undefined) this.#byKey.delete(idempotency.key);
    this.#launcher.forget(process);
    process.journal.drop("all");
    removeRecord(this.#directory, process.token);
    process.release();
  }

  #prune(): void {
    const ended = [...this.#processes.values()].filter(({ hasEnded }) => hasEnded);
    for (const process of ended.slice(0, Math.max(0, ended.length - this.#limits.endedMax))) this.#forget(process);
  }

  #account(bytes: number): void {
    this.#journalsBytes += bytes;
    if (bytes <= 0) return;
    const { journalsMaxBytes } = this.#limits;
    this.#shrink(journalsMaxBytes, (process, dropped) => process.isUnread(dropped));
    this.#shrink(journalsMaxBytes * unreadFactor, () => false);
  }

  #shrink(maxBytes: number, isSpared: (process: Process, dropped: "oldest" | "all") => boolean): void {
    for (const process of this.#processes.values()) {
      if (this.#journalsBytes <= maxBytes) return;
      if (process.hasEnded && !isSpared(process, "all")) process.journal.drop("all");
    }
    while (this.#journalsBytes > maxBytes) {
      const droppable = [...this.#processes.values()].filter((process) => !isSpared(process, "oldest"));
      const [first, ...others] = droppable;
      if (first === undefined) return;
      const largest = others.reduce((a, b) => (b.journal.bytes > a.journal.bytes ? b : a), first);
      if (largest.journal.drop("oldest") === 0) return;
    }
  }

  #load(): void {
    const segments = listSegments(this.#directory);
    const records = loadRecords(this.#directory, (name, error) => {
      this.#log.error({ err: error, name }, "a process record cannot be read and is left out");
    });
    for (const record of records) {
      const journal =
        record.journal === undefined
          ? loadJournal(this.#directory, record.token, segments.get(record.token) ?? [])
          : restoreJournal(this.#directory, record.token, record.journal);
      const process = this.#add(record, journal);
      process.keepAwake();
      if (!process.hasEnded) process.writeMarker().catch(() => undefined);
      segments.delete(record.token);
    }
    for (const [token, sequences] of segments) {
      new Journal(
        { directory: this.#directory, token },
        {
          segments: sequences.map((sequence) => ({ sequence, start: { stdout: 0, stderr: 0 }, bytes: 0 })),
          written: { stdout: 0, stderr: 0 },
        },
        { log: this.#log, onWritten: () => undefined },
      ).drop("all");
    }
    this.#prune();
  }
}
