// Runs the machine's programs for an instance, marked in their environment so that a later daemon finds those an earlier one left.
import { type CommandResult, runCommand } from "../../../core/run-command.ts";

export type RunOptions = {
  /** The instance it works for; without one nothing of it is ever searched. */
  id?: string;
  input?: string;
  signal?: AbortSignal;
  cwd?: string;
  timeoutMs?: number;
};

export const markName = "CATNAP_INSTANCE";

const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const defaultTimeoutMs = 20_000;

export class Programs {
  readonly #tag: string;

  constructor(tag: string) {
    this.#tag = tag;
  }

  /** What the environment of a program that works for an instance contains, unique on the machine. */
  mark(id: string): string {
    return `${this.#tag}/${id}`;
  }

  environment(id: string | undefined): Record<string, string> {
    const environment = { PATH: searchPath, LC_ALL: "C" };
    return id === undefined ? environment : { ...environment, [markName]: this.mark(id) };
  }

  run(program: string, args: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
    const { id, timeoutMs = defaultTimeoutMs, ...rest } = options;
    return runCommand(program, args, { ...rest, timeoutMs, env: this.environment(id) });
  }
}
