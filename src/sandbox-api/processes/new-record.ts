// What is asked for with a start, and the record it begins with.
import { randomToken } from "../../core/ids.ts";
import type { Machine } from "../machine.ts";
import type { IdempotencyKey } from "./idempotency.ts";
import { type Run, sealRun } from "./launch.ts";
import type { ProcessRecord } from "./process-record.ts";

/** Of a command, how much its record and answers repeat. */
const commandShownMax = 8_192;

export type StartRequest = Run & {
  name: string | undefined;
  command: string;
  keepAlive: boolean;
  /** Of a `keepAlive` process; undefined means unlimited. */
  timeoutMs: number | undefined;
  stdin?: boolean;
  /** How often it is run again after a failure; negative means without limit, undefined never. */
  restartsMax?: number;
};

export function newRecord(request: StartRequest, key: IdempotencyKey | undefined, machine: Machine): ProcessRecord {
  const { name, command, argv, workingDir, environment, keepAlive, timeoutMs, stdin, restartsMax } = request;
  const startedAtMs = Date.now();
  const token = randomToken(20);
  const record: ProcessRecord = {
    token,
    name: name ?? `proc-${randomToken(8)}`,
    command: shorten(command),
    workingDir,
    phase: "reserved",
    status: "running",
    pid: undefined,
    startCount: machine.startCount,
    keepAlive,
    deadlineMs: keepAlive && timeoutMs !== undefined ? startedAtMs + timeoutMs : undefined,
    startedAtMs,
    completedAtMs: undefined,
    exitCode: undefined,
    endedBy: undefined,
    stdin: stdin === true,
    journal: undefined,
  };
  if (key !== undefined) record.idempotency = { key: key.fingerprint, request: key.request };
  if (restartsMax !== undefined) {
    record.restarts = {
      max: restartsMax,
      count: 0,
      failuresInRow: 0,
      runStartedAtMs: startedAtMs,
      sealedRun: sealRun(machine, token, { argv, workingDir, environment }),
      marker: "",
      base: { stdout: 0, stderr: 0 },
      dueMs: undefined,
    };
  }
  return record;
}

function shorten(command: string): string {
  if (command.length <= commandShownMax) return command;
  return `${command.slice(0, commandShownMax)} [... ${command.length - commandShownMax} more characters ...]`;
}
