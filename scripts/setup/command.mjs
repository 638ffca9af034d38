// Runs the programs set-up needs: never through a shell, with a deadline, keeping the last words for the error message.
import { spawn, spawnSync } from "node:child_process";
import { delimiter } from "node:path";

/** A failure a person can mend: `message` says what went wrong, `remedy` what to do about it. */
export class SetupError extends Error {
  /**
   * @param {string} message
   * @param {string} [remedy]
   */
  constructor(message, remedy) {
    super(message);
    this.remedy = remedy;
  }
}

/**
 * The environment without what npm and this project's own launcher put into it, so that programs started from inside
 * `npm start` behave as they would from a plain shell.
 * @param {NodeJS.ProcessEnv} environment
 * @returns {NodeJS.ProcessEnv}
 */
export function plainEnvironment(environment = process.env) {
  /** @type {NodeJS.ProcessEnv} */
  const plain = {};
  const leaked =
    /^(npm_(package|lifecycle|command|execpath|node_execpath)|npm_config_(global|local)?_?prefix|INIT_CWD$|NODE$|NODE_OPTIONS$)/i;
  for (const [name, value] of Object.entries(environment)) if (!leaked.test(name)) plain[name] = value;
  plain.PATH = (environment.PATH ?? "")
    .split(delimiter)
    .filter((directory) => !/node_modules[/\\]/.test(directory))
    .join(delimiter);
  return plain;
}

/**
 * Resolves when the program ended well; `onLine` sees every line it prints.
 * @param {string} program
 * @param {string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, timeoutMs?: number, onLine?: (line: string) => void }} [options]
 * @returns {Promise<void>}
 */
export function run(program, args, { cwd, env = plainEnvironment(), timeoutMs = 600_000, onLine } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd,
      env,
      timeout: timeoutMs,
      killSignal: "SIGTERM",
      stdio: ["ignore", "pipe", "pipe"],
    });
    /** @type {string[]} */
    const lastLines = [];
    for (const stream of [child.stdout, child.stderr]) {
      let rest = "";
      stream.setEncoding("utf8").on("data", (chunk) => {
        const lines = (rest + chunk).slice(-65_536).split(/[\r\n]+/);
        rest = lines.pop() ?? "";
        for (const line of lines) {
          if (line.trim() === "") continue;
          lastLines.push(line);
          if (lastLines.length > 25) lastLines.shift();
          onLine?.(line);
        }
      });
    }
    child.on("error", (error) => reject(new SetupError(`${program} could not be started: ${error.message}`)));
    child.on("close", (code, signal) => {
      if (code === 0) return resolve();
      const end = signal === null ? `exit code ${code}` : `${signal} (limit ${Math.round(timeoutMs / 1000)} s)`;
      reject(new SetupError(`${program} ${args[0] ?? ""} failed with ${end}:\n  ${lastLines.join("\n  ")}`));
    });
  });
}

/**
 * A program's standard output, or undefined when it cannot be started or fails.
 * @param {string} program
 * @param {string[]} args
 * @returns {string | undefined}
 */
export function outputOf(program, args) {
  const result = spawnSync(program, args, {
    encoding: "utf8",
    env: plainEnvironment(),
    timeout: 60_000,
    maxBuffer: 16 << 20,
  });
  return result.status === 0 ? result.stdout : undefined;
}
