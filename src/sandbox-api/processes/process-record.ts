// What is kept on disk about a process: one small file each, enough to answer for it after the daemon restarted.
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { ProcessStatus } from "../../contract/sandbox-api/process.ts";
import { writeFileAtomic } from "../../core/atomic-file.ts";
import type { JournalState } from "./journal.ts";

/**
 *   reserved --spawned--> running --end observed, or lost with the machine--> ended
 *      \__ could not be started: the record is removed
 */
export type ProcessPhase = "reserved" | "running" | "ended";

export type ProcessRecord = {
  token: string;
  name: string;
  command: string;
  workingDir: string;
  phase: ProcessPhase;
  status: ProcessStatus;
  pid: number | undefined;
  keepAlive: boolean;
  /** When a `keepAlive` process is killed; undefined means never. */
  deadlineMs: number | undefined;
  startedAtMs: number;
  completedAtMs: number | undefined;
  /** As observed; undefined while it runs and when nobody saw the end. */
  exitCode: number | undefined;
  /** What was last done to end it, which decides how the end is named. */
  endedBy: "stop" | "kill" | undefined;
  /** The journal's files, written with the end. */
  journal: JournalState | undefined;
};

export function recordPath(directory: string, token: string): string {
  return join(directory, `${token}.json`);
}

export function saveRecord(directory: string, record: ProcessRecord): void {
  writeFileAtomic(recordPath(directory, record.token), JSON.stringify(record));
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
