// Runs the platform's own programs inside a sandbox, such as its search: nobody sees them as processes, and their output is not kept.
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import type { GuestProcess, Machine, ProcessEnd, ProcessSink } from "../machine.ts";

/** Tokens of processes that callers start are shorter. */
const tokenLength = 32;
const runsMax = 16;
const errorTextMax = 4_096;
const sigkill = 9;

export type ToolRun = {
  argv: readonly string[];
  workingDir: string;
  /** Bytes of its standard output as they come; false when no more are wanted, which ends it. */
  onOutput: (chunk: Buffer) => boolean;
  timeoutMs: number;
  signal: AbortSignal;
};

export type ToolEnd = { end: ProcessEnd | undefined; errorText: string; isCutShort: boolean };

type Running = {
  run: ToolRun;
  errorText: string;
  isCutShort: boolean;
  /** Bytes received, so that what comes again after a reconnection is told from what is new. */
  received: { stdout: number; stderr: number };
  finish: (end: ProcessEnd | undefined) => void;
};

export class ToolRuns {
  readonly sink: ProcessSink = {
    output: async (token, stream, offset, chunk) => this.#output(token, stream, offset, chunk),
    exit: async (token, end) => this.#running.get(token)?.finish(end),
  };
  readonly #machine: Machine;
  readonly #running = new Map<string, Running>();

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  owns(token: string): boolean {
    return token.length === tokenLength;
  }

  /** Resolves at its end; `timeout` when that does not come in time. Its processes are gone either way. */
  async run(run: ToolRun): Promise<ToolEnd> {
    if (this.#running.size >= runsMax)
      throw new AppError("rate_limited", "Too many searches are under way in this sandbox.");
    run.signal.throwIfAborted();
    const token = randomToken(tokenLength);
    const ended = Promise.withResolvers<ProcessEnd | undefined>();
    const running: Running = {
      run,
      errorText: "",
      isCutShort: false,
      received: { stdout: 0, stderr: 0 },
      finish: ended.resolve,
    };
    this.#running.set(token, running);
    const deadline = AbortSignal.timeout(run.timeoutMs);
    const stop = AbortSignal.any([run.signal, deadline]);
    const onStop = (): void => {
      this.#kill(token);
      ended.resolve(undefined);
    };
    stop.addEventListener("abort", onStop, { once: true });
    try {
      const { argv, workingDir } = run;
      const environment = { PATH: "/usr/local/bin:/usr/bin:/bin", LC_ALL: "C.UTF-8" };
      await this.#machine.guest.spawn({ token, argv, workingDir, environment }, run.signal);
      const end = await ended.promise;
      run.signal.throwIfAborted();
      if (deadline.aborted) throw new AppError("timeout", `It took longer than ${run.timeoutMs / 1_000} seconds.`);
      return { end, errorText: running.errorText, isCutShort: running.isCutShort };
    } finally {
      stop.removeEventListener("abort", onStop);
      this.#running.delete(token);
    }
  }

  /** What a former daemon started is nobody's any more. */
  guestConnected(processes: readonly GuestProcess[]): void {
    for (const { token, end } of processes) {
      if (this.owns(token) && end === undefined && !this.#running.has(token)) this.#kill(token);
    }
  }

  guestLost(): void {
    for (const { finish } of this.#running.values()) finish(undefined);
  }

  #output(token: string, stream: "stdout" | "stderr", offset: number, chunk: Buffer): void {
    const running = this.#running.get(token);
    if (running === undefined || running.isCutShort) return;
    const known = running.received[stream] - offset;
    if (known >= chunk.length) return;
    const fresh = known > 0 ? chunk.subarray(known) : chunk;
    running.received[stream] = offset + chunk.length;
    if (stream === "stderr") {
      running.errorText = (running.errorText + fresh.toString("utf8")).slice(0, errorTextMax);
    } else if (!running.run.onOutput(Buffer.from(fresh))) {
      running.isCutShort = true;
      this.#kill(token);
      running.finish(undefined);
    }
  }

  #kill(token: string): void {
    this.#machine.guest.signal(token, sigkill).catch(() => undefined);
  }
}
