// What the answer to a start waits for: ports that the process listens on, its end, both within a bound.
import type { ProcessRequest } from "../../contract/sandbox-api/process.ts";
import { AppError, toAppError } from "../../core/errors.ts";
import type { Machine, SocketInfo } from "../machine.ts";
import { type Process, waitForChange } from "./process.ts";

const portsPollMs = 200;
/** Of a wait for ports whose request gives no timeout. */
const portsTimeoutSeconds = 60;

/** Without `keepAlive` the timeout bounds the waiting alone and the process keeps running. */
export async function waitAsAsked(
  process: Process,
  request: ProcessRequest,
  { machine, gone }: { machine: Machine; gone: AbortSignal },
): Promise<void> {
  const { keepAlive, timeout = 0, waitForPorts = [], waitForCompletion } = request;
  const startedAt = performance.now();
  if (waitForPorts.length > 0) {
    const bound = timeout > 0 ? timeout : portsTimeoutSeconds;
    await within(bound, gone, (signal) => portsOpen(process, { machine, signal, ports: waitForPorts })).catch(
      (error: unknown) => {
        // Its end is what the answer tells then.
        if (waitForCompletion !== true || !process.hasEnded) throw error;
      },
    );
  }
  if (waitForCompletion !== true) return;
  if (keepAlive === true || timeout === 0) return process.waitForEnd(gone);
  const spentSeconds = (performance.now() - startedAt) / 1_000;
  await within(timeout, gone, (signal) => process.waitForEnd(signal), timeout - spentSeconds);
}

async function within(
  seconds: number,
  gone: AbortSignal,
  wait: (signal: AbortSignal) => Promise<void>,
  remainingSeconds = seconds,
): Promise<void> {
  const deadline = AbortSignal.timeout(Math.max(1, Math.ceil(remainingSeconds * 1_000)));
  try {
    await wait(AbortSignal.any([gone, deadline]));
  } catch (error) {
    if (!deadline.aborted || gone.aborted) throw error;
    throw new AppError("unprocessable", `process timed out after ${seconds} seconds`, { cause: error });
  }
}

/** Resolves once every port has a listener among the process and what it started. */
async function portsOpen(
  process: Process,
  { machine, ports, signal }: { machine: Machine; ports: readonly number[]; signal: AbortSignal },
): Promise<void> {
  let missing = new Set(ports);
  for (;;) {
    signal.throwIfAborted();
    if (process.hasEnded) throw endedEarly(process, missing);
    const { phase, guestPid } = process.record;
    if (phase === "running" && guestPid !== undefined) {
      const open = await listeningPorts(machine, guestPid);
      missing = new Set(ports.filter((port) => !open.has(port)));
      if (missing.size === 0) return;
    }
    await pause(process, signal);
  }
}

/** A look that fails for the moment is followed by the next one. */
async function listeningPorts(machine: Machine, pid: number): Promise<Set<number>> {
  const sockets = await machine.guest.sockets(pid).catch((error: unknown) => {
    const { code } = toAppError(error);
    if (code === "rate_limited" || code === "unavailable" || code === "timeout" || code === "not_found") return [];
    throw error;
  });
  return new Set(sockets.filter(isReachable).map(({ localPort }) => localPort));
}

/** Whether others than this sandbox itself could connect. */
function isReachable({ protocol, state, localAddress }: SocketInfo): boolean {
  if (protocol !== "tcp" || state !== "LISTEN") return false;
  const address = localAddress.toLowerCase().replace(/^::ffff:/, "");
  return address !== "::1" && !/^127\.\d+\.\d+\.\d+$/.test(address);
}

/** Until the next look, or the end if that comes before. */
async function pause(process: Process, signal: AbortSignal): Promise<void> {
  const dueMs = performance.now() + portsPollMs;
  while (!process.hasEnded) {
    const timeoutMs = dueMs - performance.now();
    if (timeoutMs <= 0 || (await waitForChange(process, signal, { timeoutMs })) === "timeout") return;
  }
}

function endedEarly({ record }: Process, missing: ReadonlySet<number>): AppError {
  const how = record.cause?.message ?? "It ended.";
  const message = `process '${record.name}' ended before it listened on port ${[...missing].join(", ")}: ${how}`;
  return new AppError("unprocessable", message);
}
