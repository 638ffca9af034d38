// How a process is answered as JSON.
import type { ProcessLogs, ProcessResponse } from "../../contract/sandbox-api/process.ts";
import { readTail } from "./output-tail.ts";
import type { Process } from "./process.ts";

/** With the newest output; an answer that names the end has all output before it. */
export async function processAnswerWithTail(process: Process, maxBytes: number): Promise<ProcessResponse> {
  for (;;) {
    const { hasEnded } = process;
    const tail = await readTail(process.journal, maxBytes, process.record.name);
    if (hasEnded === process.hasEnded) return processAnswer(process, tail);
  }
}

/** Null output members say that this answer carries no output, as against empty output. */
export function processAnswer({ record }: Process, output: ProcessLogs | undefined): ProcessResponse {
  return {
    pid: record.pid === undefined ? "" : String(record.pid),
    name: record.name,
    command: record.command,
    status: record.status,
    startedAt: new Date(record.startedAtMs).toUTCString(),
    completedAt: record.completedAtMs === undefined ? null : new Date(record.completedAtMs).toUTCString(),
    // That of a run that failed and is followed by another is not the process's.
    exitCode: record.phase === "ended" ? (record.exitCode ?? null) : null,
    workingDir: record.workingDir,
    logs: output?.logs ?? null,
    stdout: output?.stdout ?? null,
    stderr: output?.stderr ?? null,
    restartOnFailure: record.restarts !== undefined,
    maxRestarts: record.restarts?.max ?? 0,
    restartCount: record.restarts?.count ?? 0,
    keepAlive: record.keepAlive,
    stdin: record.stdin ?? false,
    cause: record.cause ?? null,
  };
}
