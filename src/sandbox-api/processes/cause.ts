// Says why a process is not running any more: what was observed, and who had asked for it.
import { constants } from "node:os";
import type { ProcessCause, ProcessStatus } from "../../contract/sandbox-api/process.ts";
import type { ProcessEnd } from "../machine.ts";
import type { ProcessRecord } from "./process-record.ts";

const sigkill = 9;
// Of several names for one number the first is the usual one, SIGABRT and not SIGIOT.
const signalNames = new Map(
  Object.entries(constants.signals)
    .reverse()
    .map(([name, number]) => [number, name]),
);

const sentSignals = new Set(["SIGKILL", "SIGTERM", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2"]);

const askedFor = {
  stop: "It was stopped through the API.",
  kill: "It was killed through the API.",
  timeout: "It was killed because its timeout was over.",
} as const;

/** An `end` of undefined was not observed: the machine went away with the process. */
export function causeOf(end: ProcessEnd | undefined, endedBy: ProcessRecord["endedBy"]): ProcessCause {
  if (end === undefined) {
    const message = "The sandbox's machine stopped while it ran; how far it had come was not observed.";
    return { kind: "killed_by", by: "platform", message };
  }
  const signal = "signal" in end ? { signal: signalName(end.signal) } : {};
  if (endedBy !== undefined) return { kind: "killed_by", by: endedBy, ...signal, message: askedFor[endedBy] };
  if (end.outOfMemory === true) {
    const what = "signal" in end ? "it" : "a process that it had started";
    return { kind: "out_of_memory", ...signal, message: `The sandbox ran out of memory and ${what} was killed.` };
  }
  const limited = end.processLimit === undefined ? {} : { processLimit: end.processLimit };
  const how = "signal" in end ? diedOf(end.signal) : `It ended with code ${end.code}.`;
  const message = end.processLimit === undefined ? how : `${how} ${atLimit(end.processLimit)}`;
  if (!("signal" in end)) return { kind: "exit", ...limited, message };
  const by = isSent(end.signal) ? { by: "sandbox" as const } : {};
  return { kind: "signal", ...by, ...signal, ...limited, message };
}

/** The kernel sends none of these for what a program itself does; the platform's own are known. */
function isSent(signal: number): boolean {
  return sentSignals.has(signalName(signal));
}

function diedOf(signal: number): string {
  const name = signalName(signal);
  return isSent(signal) ? `It died of ${name}, sent by a process of the sandbox.` : `It died of ${name}.`;
}

/** What it could not do then is known to itself alone. */
function atLimit(limit: number): string {
  return (
    `While it ran, the sandbox's processes stood at their limit of ${limit}, threads included, and could start no other. ` +
    "Run fewer at a time, or have the platform's CATNAP_PROCESSES_MAX raised."
  );
}

/** For a start that nobody can say about whether it ran anything. */
export const unknownCause: ProcessCause = {
  kind: "unknown",
  message: "The sandbox's machine stopped while it was being started; whether it ran is not known.",
};

export function statusOf(end: ProcessEnd | undefined, endedBy: ProcessRecord["endedBy"]): ProcessStatus {
  if (end === undefined) return "killed";
  if (endedBy === "stop") return "stopped";
  if (endedBy !== undefined) return "killed";
  if ("signal" in end) return end.signal === sigkill ? "killed" : "failed";
  return end.code === 0 ? "completed" : "failed";
}

export function exitCodeOf(end: ProcessEnd | undefined): number | undefined {
  if (end === undefined) return undefined;
  return "code" in end ? end.code : 128 + end.signal;
}

function signalName(signal: number): string {
  return signalNames.get(signal) ?? `signal ${signal}`;
}
