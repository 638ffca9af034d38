// Starts the compiled init as a plain process with its listening socket on descriptor 3, and connects to it.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, renameSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { createLogger } from "../../src/core/log.ts";
import { type GuestConnection, openGuest } from "../../src/host/guest/guest.ts";

const projectRoot = join(import.meta.dirname, "../..");

/** Builds what is out of date and returns the path of one of the guest's programs. */
export function buildGuest(target: "init" | "sanitize" | "fuzz" | "vectors"): string {
  execFileSync(process.execPath, [join(projectRoot, "scripts/build-guest.mjs"), `--${target}`], { stdio: "inherit" });
  const output = target === "init" ? "catnap-init" : target === "sanitize" ? "catnap-init-sanitized" : target;
  return join(projectRoot, "guest/build", output);
}

/** Only a sanitized build reads it. It cannot look for leaks: that takes tracing the init, which nobody may. */
const sanitizerOptions = { ASAN_OPTIONS: "detect_leaks=0", UBSAN_OPTIONS: "print_stacktrace=1" };

export type RunningGuest = AsyncDisposable & {
  process: ChildProcess;
  pid: number;
  socketPath: string;
  /** A directory of its own, removed with it. */
  dir: string;
  /** A connection that must not be lost, unless `onLost` says otherwise. */
  open(onLost?: (reason: string) => void): Promise<GuestConnection>;
};

export type StartOptions = {
  /** A program and its arguments that end by executing the guest, e.g. to give it a PID namespace. */
  under?: readonly string[];
  /** What ends it, when that program does not pass SIGTERM on. */
  endSignal?: NodeJS.Signals;
};

export async function startGuest({ under = [], endSignal = "SIGTERM" }: StartOptions = {}): Promise<RunningGuest> {
  const binary = process.env.CATNAP_GUEST_BINARY ?? buildGuest("init");
  const [program = binary, ...args] = [...under, binary];
  const dir = mkdtempSync("/tmp/guest-");
  const socketPath = join(dir, "guest.sock");
  const server = createServer();
  server.listen(`${socketPath}.new`);
  await once(server, "listening");
  const { fd } = (server as unknown as { _handle: { fd: number } })._handle;
  const child = spawn(program, args, { stdio: ["ignore", "inherit", "inherit", fd], env: sanitizerOptions });
  await once(child, "spawn");
  // Closing the server removes the name it was given: the socket's own name has to be another one by then.
  renameSync(`${socketPath}.new`, socketPath);
  server.close();
  const exited = once(child, "exit");
  const log = createLogger("silent");
  return {
    process: child,
    pid: child.pid!,
    socketPath,
    dir,
    open: (onLost = (reason) => assertNotLost(reason)) => openGuest({ socketPath, log, onLost }),
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) child.kill(endSignal);
      await exited;
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

function assertNotLost(reason: string): never {
  throw new Error(`the guest was lost: ${reason}`);
}
