// All processes of one sandbox: starting, finding, ending, and taking in what the guest tells about them.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import type { Logger } from "../../core/log.ts";
import type { GuestProcess, Machine, ProcessSink } from "../machine.ts";
import { Journal, type JournalState } from "./journal.ts";
import { listSegments, loadJournal, restoreJournal } from "./journal-load.ts";
import { Process } from "./process.ts";
import { loadRecords, type ProcessRecord, removeRecord, saveRecord } from "./process-record.ts";

export type ProcessLimits = {
  /** Ended processes whose record and output are kept. */
  endedMax: number;
  runningMax: number;
  /** Output of all processes of a sandbox together; the oldest goes first. */
  journalsMaxBytes: number;
};

export const processLimits: ProcessLimits = {
  endedMax: 1_000,
  runningMax: 4_096,
  journalsMaxBytes: 256 * 1024 * 1024,
};

/** Of a command, how much its record and answers repeat. */
const commandShownMax = 8_192;
const spawnAttempts = 3;

export type StartRequest = {
  name: string | undefined;
  command: string;
  argv: readonly string[];
  workingDir: string;
  environment: Readonly<Record<string, string>>;
  keepAlive: boolean;
  /** Of a `keepAlive` process; undefined means unlimited. */
  timeoutMs: number | undefined;
};

export class Processes implements AsyncDisposable {
  readonly sink: ProcessSink = {
    output: (token, stream, offset, chunk) => this.#output(token, stream, offset, chunk),
    exit: (token, end) => this.#exit(token, end),
  };
  readonly #machine: Machine;
  readonly #log: Logger;
  readonly #limits: ProcessLimits;
  readonly #directory: string;
  /** By token, oldest first. */
  readonly #processes = new Map<string, Process>();
  readonly #starting = new Set<string>();
  #journalsBytes = 0;
  #disposed = false;

  constructor(machine: Machine, log: Logger, limits = processLimits) {
    this.#machine = machine;
    this.#limits = limits;
    this.#log = log;
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
  async start(request: StartRequest): Promise<Process> {
    const process = this.#reserve(request);
    this.#starting.add(process.token);
    try {
      const { pid } = await this.#spawn(process, request);
      process.started(pid);
      return process;
    } catch (error) {
      // Whether it runs is unknown after these: the record stays until the guest tells.
      const isUnknown = error instanceof AppError && (error.code === "unavailable" || error.code === "timeout");
      if (!isUnknown && process.record.phase === "reserved") this.#forget(process);
      throw error;
    } finally {
      this.#starting.delete(process.token);
    }
  }

  async guestConnected(known: readonly GuestProcess[]): Promise<void> {
    const pids = new Map(known.map(({ token, pid }) => [token, pid]));
    for (const process of [...this.#processes.values()]) {
      if (process.hasEnded || this.#starting.has(process.token)) continue;
      const pid = pids.get(process.token);
      if (pid !== undefined) process.started(pid);
      else if (process.record.phase === "reserved") this.#forget(process);
      else await this.#lose(process);
    }
  }

  async guestLost(): Promise<void> {
    for (const process of [...this.#processes.values()]) {
      if (process.record.phase === "running") await this.#lose(process);
      else if (process.record.phase === "reserved" && !this.#starting.has(process.token)) this.#forget(process);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    for (const process of this.#processes.values()) {
      process.release();
      await process.journal.close();
    }
  }

  #reserve({ name, command, workingDir, keepAlive, timeoutMs }: StartRequest): Process {
    const running = [...this.#processes.values()].filter((process) => !process.hasEnded);
    const { runningMax } = this.#limits;
    if (running.length >= runningMax) {
      throw new AppError("rate_limited", `The sandbox runs ${runningMax} processes already.`);
    }
    if (name !== undefined && running.some(({ record }) => record.name === name)) {
      throw new AppError("invalid_request", `process with name '${name}' already exists and is running`);
    }
    const startedAtMs = Date.now();
    const record: ProcessRecord = {
      token: randomToken(20),
      name: name ?? `proc-${randomToken(8)}`,
      command: shorten(command),
      workingDir,
      phase: "reserved",
      status: "running",
      pid: undefined,
      keepAlive,
      deadlineMs: keepAlive && timeoutMs !== undefined ? startedAtMs + timeoutMs : undefined,
      startedAtMs,
      completedAtMs: undefined,
      exitCode: undefined,
      endedBy: undefined,
      journal: undefined,
    };
    saveRecord(this.#directory, record);
    return this.#add(record, { segments: [], written: { stdout: 0, stderr: 0 } });
  }

  /** The token makes repeating safe when an answer was lost. */
  async #spawn(process: Process, { argv, workingDir, environment }: StartRequest): Promise<{ pid: number }> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#machine.guest.spawn({ token: process.token, argv, workingDir, environment });
      } catch (error) {
        const mayRepeat = error instanceof AppError && error.code === "unavailable" && attempt < spawnAttempts;
        if (!mayRepeat) throw error;
      }
    }
  }

  async #output(token: string, stream: "stdout" | "stderr", offset: number, chunk: Buffer): Promise<void> {
    this.#checkOpen();
    const process = this.#processes.get(token);
    // Output of a process nobody can ask for, or whose end is recorded, has nowhere to go.
    if (process === undefined || process.hasEnded) return;
    const { journal, pace } = process;
    await journal.append(stream, offset, chunk);
    // The guest sends no more before this is acknowledged, so the process blocks as it would on a full pipe.
    await pace.keep(journal.written.stdout + journal.written.stderr);
  }

  async #exit(token: string, end: Parameters<ProcessSink["exit"]>[1]): Promise<void> {
    this.#checkOpen();
    const process = this.#processes.get(token);
    if (process === undefined) return this.#log.warn({ process: token }, "a process without a record ended");
    await process.journal.flush();
    process.ended(end);
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
    this.#journalsBytes += process.journal.bytes;
    return process;
  }

  #forget(process: Process): void {
    this.#processes.delete(process.token);
    process.journal.drop("all");
    removeRecord(this.#directory, process.token);
    process.release();
  }

  #prune(): void {
    const ended = [...this.#processes.values()].filter(({ hasEnded }) => hasEnded);
    for (const process of ended.slice(0, Math.max(0, ended.length - this.#limits.endedMax))) this.#forget(process);
  }

  #account(bytes: number): void {
    const { journalsMaxBytes } = this.#limits;
    this.#journalsBytes += bytes;
    if (bytes <= 0 || this.#journalsBytes <= journalsMaxBytes) return;
    for (const process of this.#processes.values()) {
      if (process.hasEnded && this.#journalsBytes > journalsMaxBytes) process.journal.drop("all");
    }
    while (this.#journalsBytes > journalsMaxBytes) {
      const largest = [...this.#processes.values()].reduce((a, b) => (b.journal.bytes > a.journal.bytes ? b : a));
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
      this.#add(record, journal).keepAwake();
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

function shorten(command: string): string {
  if (command.length <= commandShownMax) return command;
  return `${command.slice(0, commandShownMax)} [... ${command.length - commandShownMax} more characters ...]`;
}
