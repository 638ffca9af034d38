// Runs a program of the machine with an argument list (never through a shell), a deadline and bounded output.
import { spawn } from "node:child_process";
import { AppError } from "./errors.ts";

export type CommandOptions = {
  input?: string;
  timeoutMs?: number;
  signal?: AbortSignal;
  env?: NodeJS.ProcessEnv;
  cwd?: string;
  /** Bytes kept of each output stream; more is dropped from its beginning. */
  outputMaxBytes?: number;
  /** Exit codes that are not failures; 0 always is one. */
  okCodes?: readonly number[];
  /** Extra descriptors given to the child from 3 on (used to hand sockets over). */
  extraFds?: readonly number[];
  /** Told the process id, for callers that watch what the program uses. */
  onSpawn?: (pid: number) => void;
};

export type CommandResult = { code: number; stdout: string; stderr: string };

/** The platform's own, without what gives access to its database: programs that work for sandboxes have no use for it. */
function inheritedEnvironment(): NodeJS.ProcessEnv {
  const { CATNAP_DATABASE_URL: _url, PGPASSWORD: _password, ...others } = process.env;
  const { CATNAP_SEAL_KEY: _key, CATNAP_SEAL_KEY_PREVIOUS: _previous, ...rest } = others;
  return rest;
}

/** Resolves with the program's output; throws `internal` with the program's name and its last words otherwise. */
export function runCommand(
  program: string,
  args: readonly string[],
  options: CommandOptions = {},
): Promise<CommandResult> {
  const { input, timeoutMs = 30_000, signal, outputMaxBytes = 64 * 1024, okCodes = [], extraFds = [] } = options;
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd: options.cwd,
      env: options.env ?? inheritedEnvironment(),
      signal,
      timeout: timeoutMs,
      killSignal: "SIGKILL",
      stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe", ...extraFds],
    });
    if (child.pid !== undefined) options.onSpawn?.(child.pid);
    const outputs = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const) {
      child[name]!.setEncoding("utf8").on("data", (chunk: string) => {
        outputs[name] = (outputs[name] + chunk).slice(-outputMaxBytes);
      });
    }
    const fail = (reason: string, cause?: unknown): void => {
      reject(new AppError("internal", `${program} ${args[0] ?? ""} failed: ${reason}`, { cause }));
    };
    child.on("error", (error) => fail(error.message, error));
    child.on("close", (code, killedBy) => {
      if (code === 0 || (code !== null && okCodes.includes(code))) resolve({ code, ...outputs });
      else fail(`${killedBy ?? `exit code ${code}`}: ${outputs.stderr.trim().slice(-2_000)}`);
    });
    child.stdin?.on("error", () => undefined).end(input);
  });
}
