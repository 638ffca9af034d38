// How a process is answered as JSON.
import type { ProcessLogs, ProcessResponse } from "../../contract/sandbox-api/process.ts";
import type { Process } from "./process.ts";

/** Null output members say that this answer carries no output, as against empty output. */
export function processAnswer({ record }: Process, output: ProcessLogs | undefined): ProcessResponse {
  return {
    pid: record.pid === undefined ? "" : String(record.pid),
    name: record.name,
    command: record.command,
    status: record.status,
    startedAt: new Date(record.startedAtMs).toUTCString(),
    completedAt: record.completedAtMs === undefined ? null : new Date(record.completedAtMs).toUTCString(),
    exitCode: record.exitCode ?? null,
    workingDir: record.workingDir,
    logs: output?.logs ?? null,
    stdout: output?.stdout ?? null,
    stderr: output?.stderr ?? null,
    restartOnFailure: false,
    maxRestarts: 0,
    restartCount: 0,
    keepAlive: record.keepAlive,
    stdin: false,
  };
}
