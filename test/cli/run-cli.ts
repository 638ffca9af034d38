// Runs the command line in this process with captured output, so that a test sees what a person would see.
import { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import type { CliContext, StopSignal, TerminalStream } from "../../src/cli/context.ts";
import { runCli } from "../../src/cli/program.ts";
import type { StartPlatform } from "../../src/contract/platform.ts";

export type CliRun = { exitCode: number; stdout: string; stderr: string; stdoutBytes: Buffer };

export type CliOptions = {
  env?: Record<string, string>;
  homeDir?: string;
  loadPlatform?: () => Promise<StartPlatform>;
  /** Given the running command: what it wrote so far, and a way to press Ctrl-C. */
  during?: (running: { stdout(): string; stderr(): string; signal(name: StopSignal): void }) => Promise<void>;
  stdout?: TerminalStream;
  stdin?: string;
};

export const projectDir = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

export async function cli(args: readonly string[], options: CliOptions = {}): Promise<CliRun> {
  const written: Record<"stdout" | "stderr", Buffer[]> = { stdout: [], stderr: [] };
  const capture = (name: "stdout" | "stderr"): TerminalStream =>
    new Writable({
      write(chunk: Buffer, _, done) {
        written[name].push(chunk);
        done();
      },
    });
  const handlers = new Set<(signal: StopSignal) => void>();
  const context: CliContext = {
    env: options.env ?? {},
    stdin: Readable.from(options.stdin === undefined ? [] : [Buffer.from(options.stdin)]),
    stdout: options.stdout ?? capture("stdout"),
    stderr: capture("stderr"),
    homeDir: options.homeDir ?? "/nonexistent",
    userId: 0,
    projectDir,
    onStopSignal(handler) {
      handlers.add(handler);
      return { [Symbol.dispose]: () => void handlers.delete(handler) };
    },
    loadPlatform: options.loadPlatform ?? (() => Promise.reject(new Error("this test has no platform"))),
  };
  const text = (name: "stdout" | "stderr"): string => Buffer.concat(written[name]).toString("utf8");
  const signal = (name: StopSignal): void => {
    for (const handler of [...handlers]) handler(name);
  };
  const running = runCli(args, context);
  const [exitCode] = await Promise.all([
    running,
    options.during?.({ stdout: () => text("stdout"), stderr: () => text("stderr"), signal }),
  ]);
  return { exitCode, stdout: text("stdout"), stderr: text("stderr"), stdoutBytes: Buffer.concat(written.stdout) };
}
