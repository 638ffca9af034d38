// The entry of the command line: the only file of it that touches the process, and the only one that may load `src/dev/`, lazily.
import { homedir } from "node:os";
import { fileURLToPath } from "node:url";
import type { CliContext, StopSignal } from "./context.ts";
import { runCli } from "./program.ts";

const exitGraceMs = 1_000;

const stopSignals: readonly StopSignal[] = ["SIGINT", "SIGTERM", "SIGHUP"];

const context: CliContext = {
  env: process.env,
  // Read by few commands, and opening it costs time.
  get stdin() {
    return process.stdin;
  },
  stdout: process.stdout,
  stderr: process.stderr,
  homeDir: homedir(),
  userId: process.getuid?.() ?? -1,
  projectDir: fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, ""),
  onStopSignal(handler) {
    for (const signal of stopSignals) process.on(signal, handler);
    return {
      [Symbol.dispose]() {
        for (const signal of stopSignals) process.off(signal, handler);
      },
    };
  },
  loadPlatform: async () => (await import("../dev/platform.ts")).startPlatform,
};

// A closed pipe is reported by the write that meets it; without a listener it would end the process with a stack trace.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
process.exitCode = await runCli(process.argv.slice(2), context);
// A platform that was forced to stop may still hold something open.
setTimeout(() => process.exit(), exitGraceMs).unref();
