// What is kept on disk about a process: one small file each, enough to answer for it after the daemon restarted.
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { ProcessCause, ProcessStatus } from "../../contract/sandbox-api/process.ts";
import { writeFileAtomic } from "../../core/atomic-file.ts";
import { isDiskFull } from "../../core/disk-full.ts";
import { AppError } from "../../core/errors.ts";
import type { JournalState } from "./journal.ts";
import type { StreamOffsets } from "./journal-format.ts";

/**
 *   reserved --spawned--> running --end observed, or lost with the machine--> ended
 *      \                   |   ^                                                ^
 *       \     failed, to be|   |spawned                                         |
 *        \    run again    v   |                                                |
 *         \              pausing --pause over--> respawning --stopped, or cannot be started--+
 *          \__ could not be started: the record is removed
 *
 * Only `running` and `respawning` have a run inside, or may have; each run has a token of its own.
 */
export type ProcessPhase = "reserved" | "running" | "pausing" | "respawning" | "ended";

export type ProcessRecord = {
  token: string;
  name: string;
  command: string;
  workingDir: string;
  phase: ProcessPhase;
  status: ProcessStatus;
  /** Of the first run, by which callers know the process. */
  pid: number | undefined;
  /** Of the present run. */
  guestPid?: number;
  /** The start of the machine it runs in: it ends with that. */
  startCount?: number;
  keepAlive: boolean;
  /** When a `keepAlive` process is killed; undefined means never. */
  deadlineMs: number | undefined;
  startedAtMs: number;
  completedAtMs: number | undefined;
  /** As observed; undefined while it runs and when nobody saw the end. */
  exitCode: number | undefined;
  /** What was last done to end it, which decides how the end is named. */
  endedBy: "stop" | "kill" | "timeout" | undefined;
  cause?: ProcessCause;
  stdin?: boolean;
  /** The input of the present run was closed on request. */
  isInputClosed?: boolean;
  /** The key it was started with and what was asked with it, as fingerprints. */
  idempotency?: { key: string; request: string };
  restarts?: RestartState;
  /** The journal's files, written with the end. */
  journal: JournalState | undefined;
};

/** Of a process that is run again when it fails. */
export type RestartState = {
  /** Negative: without limit. */
  max: number;
  count: number;
  failuresInRow: number;
  runStartedAtMs: number;
  /** What it is run with, sealed for the record's token. */
  sealedRun: string;
  /** Ends the output of the earlier runs; that of the present one begins after it, at `base`. */
  marker: string;
  base: StreamOffsets;
  /** When a pause is over. */
  dueMs: number | undefined;
};

/** A token that names one run of a record: the record's own for the first. */
export function runToken({ token, restarts }: Pick<ProcessRecord, "token" | "restarts">): string {
  const count = restarts?.count ?? 0;
  if (count === 0) return token;
  const digits = count.toString(36).padStart(6, "0");
  return token.slice(0, token.length - digits.length) + digits;
}

export function recordPath(directory: string, token: string): string {
  return join(directory, `${token}.json`);
}

/** `unavailable` when the host's disk, not the sandbox's, is full; the record on it is the old one then. */
export function saveRecord(directory: string, record: ProcessRecord): void {
  try {
    writeFileAtomic(recordPath(directory, record.token), JSON.stringify(record));
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    const message = "The platform has no room to record the process; try again later.";
    throw new AppError("unavailable", message, { cause: error });
  }
}

export function removeRecord(directory: string, token: string): void {
  rmSync(recordPath(directory, token), { force: true });
}

/** Every readable record, oldest first; what cannot be read is reported, not trusted. */
export function loadRecords(directory: string, onUnreadable: (name: string, error: unknown) => void): ProcessRecord[] {
  const records: ProcessRecord[] = [];
  for (const name of readdirSync(directory)) {
    if (!/^[a-z0-9]{1,32}\.json$/.test(name)) continue;
    try {
      const record = JSON.parse(readFileSync(join(directory, name), "utf8")) as ProcessRecord;
      if (record.token !== name.slice(0, -5)) throw new Error("the record names another process");
      records.push(record);
    } catch (error) {
      onUnreadable(name, error);
    }
  }
  return records.sort((a, b) => a.startedAtMs - b.startedAtMs);
}
