// `catnap exec`: runs a command in a sandbox as if it were local.
import type { Command } from "commander";
import { addConnectionOptions, type ConnectionOptions, connect } from "../connection.ts";
import type { CliContext } from "../context.ts";
import { collect, parseTimeoutMs, parseVariables } from "../option-values.ts";
import { formatResult, runInForeground, Stopper } from "../process/foreground.ts";

type Options = ConnectionOptions & { cwd?: string; env?: string[]; timeout?: string };

export function defineExec(command: Command, context: CliContext, finish: (exitCode: number) => void): void {
  command
    .usage("<name> [options] -- <command> [args...]")
    .argument("<name>", "name of the sandbox")
    .argument("<command...>", "program and arguments; put -- before them")
    .option("--cwd <dir>", "directory to run it in")
    .option("--env <name=value>", "environment variable; NAME alone takes your own value; may be repeated", collect)
    .option("--timeout <duration>", "stop it after this time, such as 90s or 5m")
    .addHelpText(
      "after",
      `
The arguments reach the program as they are; for pipes and variables of the sandbox ask for its shell: sh -c '...'.
Output is passed on byte for byte as it comes. Ctrl-C ends the command in the sandbox: SIGTERM, then SIGKILL.

Exit codes: the command's own, 128 + n when signal n ended it; 124 timeout, 125 catnap failed,
126 and 127 the command cannot be run or found, 130 interrupted.

Examples:
  catnap exec dev -- python3 -c 'print(6 * 7)'
  catnap exec dev --cwd /app --env DEBUG=1 -- npm test
  catnap exec dev -- tar -C /data -cz . > data.tar.gz`,
    );
  addConnectionOptions(command).action(async (name: string, argv: string[], options: Options) => {
    const timeoutMs = parseTimeoutMs("--timeout", options.timeout);
    const env = parseVariables("--env", options.env, context.env);
    using connection = connect(context, options);
    using stopper = new Stopper(context);
    const client = await connection.openSandbox(name, stopper.signal);
    const request = { argv, workingDir: options.cwd, env };
    const result = await runInForeground({ client, context, stopper }, request, { timeoutMs, json: options.json });
    if (options.json === true) context.stdout.write(formatResult(name, result));
    finish(result.exitCode);
  });
}
