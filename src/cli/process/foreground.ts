// A command in the foreground: its output goes where this program's goes, and what ends this program ends it.
import type { ProcessResponse } from "../../contract/sandbox-api/process.ts";
import type { CliContext, StopSignal, TerminalStream } from "../context.ts";
import { exitCodes } from "../failure.ts";
import { formatDuration } from "../format.ts";
import type { HttpClient } from "../http/http-client.ts";
import { exitCodeOf, type ProcessRequest, runProcess } from "./run-process.ts";

export type ForegroundOptions = { timeoutMs?: number; json?: boolean };

export type ForegroundResult = { exitCode: number; stdout?: CapturedOutput; stderr?: CapturedOutput };

/** Kept of each stream for `--json`; more is counted, not kept. */
const captureMaxBytes = 16 * 1024 * 1024;

const signalNumbers: Record<StopSignal, number> = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 };

/** What makes a foreground command stop, and the exit code this program then has. */
export class Stopper implements Disposable {
  readonly #controller = new AbortController();
  readonly #handler: Disposable;
  /** Undefined until something stops the command. */
  exitCode: number | undefined;

  constructor(context: CliContext) {
    this.#handler = context.onStopSignal((signal) => this.stop(128 + signalNumbers[signal]));
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  stop(exitCode: number): void {
    this.exitCode ??= exitCode;
    this.#controller.abort();
  }

  [Symbol.dispose](): void {
    this.#handler[Symbol.dispose]();
  }
}

export async function runInForeground(
  { client, context, stopper }: { client: HttpClient; context: CliContext; stopper: Stopper },
  request: ProcessRequest,
  { timeoutMs, json = false }: ForegroundOptions,
): Promise<ForegroundResult> {
  const captured = json ? { stdout: new CapturedOutput(), stderr: new CapturedOutput() } : undefined;
  const write = async (stream: "stdout" | "stderr", chunk: Buffer): Promise<void> => {
    if (captured !== undefined) captured[stream].add(chunk);
    else if (stopper.exitCode !== exitCodes.brokenPipe) {
      await writeAll(context[stream], chunk).catch(() => stopper.stop(exitCodes.brokenPipe));
    }
  };
  const timer = timeoutMs === undefined ? undefined : setTimeout(() => stopper.stop(exitCodes.timedOut), timeoutMs);
  let state: ProcessResponse | undefined;
  try {
    state = await runProcess(client, request, { write, stop: stopper.signal });
  } catch (error) {
    if (stopper.exitCode === undefined) throw error;
  } finally {
    clearTimeout(timer);
  }
  if (stopper.exitCode === exitCodes.timedOut && !json) {
    context.stderr.write(`catnap: the command was stopped after ${formatDuration(timeoutMs ?? 0)}\n`);
  }
  return { exitCode: stopper.exitCode ?? exitCodeOf(state!), ...captured };
}

/** Resolves once the stream has taken the bytes. */
function writeAll(stream: TerminalStream, chunk: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(chunk, (error) => (error === undefined || error === null ? resolve() : reject(error)));
  });
}

/** Output kept for JSON: as text when it is text, else also as base64. */
export class CapturedOutput {
  readonly #chunks: Buffer[] = [];
  #keptBytes = 0;
  #bytes = 0;

  add(chunk: Buffer): void {
    this.#bytes += chunk.length;
    const kept = chunk.subarray(0, captureMaxBytes - this.#keptBytes);
    this.#keptBytes += kept.length;
    if (kept.length > 0) this.#chunks.push(kept);
  }

  toJson(): { text: string; base64?: string; bytes: number; truncated: boolean } {
    const all = Buffer.concat(this.#chunks);
    const text = all.toString("utf8");
    return {
      text,
      ...(Buffer.from(text, "utf8").equals(all) ? {} : { base64: all.toString("base64") }),
      bytes: this.#bytes,
      truncated: this.#bytes > this.#keptBytes,
    };
  }
}

export function formatResult(sandbox: string, result: ForegroundResult): string {
  const { exitCode, stdout, stderr } = result;
  return `${JSON.stringify({ sandbox, exitCode, stdout: stdout?.toJson(), stderr: stderr?.toJson() })}\n`;
}
