// What a command may use of the process it runs in; `main.ts` fills it from the real process, tests from their own.
import type { Readable, Writable } from "node:stream";
import type { StartPlatform } from "../contract/platform.ts";

export type TerminalStream = Writable & { isTTY?: boolean; columns?: number };

/** Signals that end a command. */
export type StopSignal = "SIGINT" | "SIGTERM" | "SIGHUP";

export type CliContext = {
  env: Readonly<Record<string, string | undefined>>;
  stdin: Readable & { isTTY?: boolean };
  stdout: TerminalStream;
  stderr: TerminalStream;
  homeDir: string;
  userId: number;
  /** Directory of the project: where `bin/catnap` and `guest/build` are. */
  projectDir: string;
  /** Calls the handler for every stop signal until disposed; without a handler the signal has its usual effect. */
  onStopSignal(handler: (signal: StopSignal) => void): Disposable;
  /** The server parts, loaded only by `up`. */
  loadPlatform(): Promise<StartPlatform>;
};
