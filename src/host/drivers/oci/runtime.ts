// Calls the OCI runtime's command line: to start an instance and to forget one, never while a caller waits for a sleeping sandbox.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { AppError } from "../../../core/errors.ts";
import type { InstancePaths } from "./paths.ts";
import type { Programs } from "./programs.ts";

export type RuntimeOptions = { program: string; root: string; programs: Programs };

const startTimeoutMs = 60_000;

export class Runtime {
  readonly #options: RuntimeOptions;

  constructor(options: RuntimeOptions) {
    this.#options = options;
  }

  /** Resolves with the init's process id once it runs. `listenFd` becomes its descriptor 3. */
  async start(id: string, paths: InstancePaths, listenFd: number, signal: AbortSignal): Promise<number> {
    const { program, root, programs } = this.#options;
    const args = ["--root", root, "--log", paths.runtimeLog, "run", "--detach", "--no-new-keyring"];
    args.push("--preserve-fds", "1", "--pid-file", paths.pidFile, "--bundle", paths.bundleDir, id);
    await new Promise<void>((resolve, reject) => {
      const fail = (reason: string, cause?: unknown): void => {
        reject(new AppError("internal", `${program} could not start an instance: ${reason}`, { cause }));
      };
      // No pipes: the init inherits the runtime's standard streams and would hold them open.
      const child = spawn(program, args, {
        stdio: ["ignore", "ignore", "ignore", listenFd],
        env: programs.environment(id),
        cwd: "/",
        signal,
        timeout: startTimeoutMs,
        killSignal: "SIGKILL",
      });
      let failure: Error | undefined;
      child.on("error", (error) => {
        failure = error;
        if (child.pid === undefined) fail(error.message, error);
      });
      // Also after an abort only the exit settles it: what follows must not race with a runtime still at work.
      child.on("exit", (code, killedBy) => {
        if (failure !== undefined) fail(failure.message, failure);
        else if (code !== 0) fail(`${killedBy ?? `exit code ${code}`}: ${lastWords(paths.runtimeLog)}`);
        else resolve();
      });
    });
    return Number(readFileSync(paths.pidFile, "utf8"));
  }

  /** Makes the runtime forget an instance whose processes are dead; one it does not know is no failure. */
  async forget(id: string): Promise<void> {
    const { program, root, programs } = this.#options;
    await programs.run(program, ["--root", root, "delete", "--force", id], { id });
  }
}

function lastWords(log: string): string {
  try {
    return readFileSync(log, "utf8").trim().slice(-2_000);
  } catch {
    return "it wrote no log";
  }
}
