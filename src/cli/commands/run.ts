// `catnap run`: one command in a fresh sandbox that is gone afterwards, however the command ended.
import type { Command } from "commander";
import type { Sandbox, SandboxInput } from "../../contract/sandbox.ts";
import { randomToken } from "../../core/ids.ts";
import { addConnectionOptions, type Connection, type ConnectionOptions, connect } from "../connection.ts";
import type { CliContext } from "../context.ts";
import { CliFailure } from "../failure.ts";
import { parseTimeoutMs } from "../option-values.ts";
import { formatResult, runInForeground, Stopper } from "../process/foreground.ts";
import { addShapeOptions, type ShapeOptions, toSandboxInput } from "../sandbox-shape.ts";

type Options = ConnectionOptions & ShapeOptions & { cwd?: string; timeout?: string; keep?: boolean };

const createGraceMs = 5_000;

export function defineRun(command: Command, context: CliContext, finish: (exitCode: number) => void): void {
  addShapeOptions(command.usage("[options] -- <command> [args...]").argument("<command...>", "program and arguments"))
    .option("--cwd <dir>", "directory to run it in")
    .option("--timeout <duration>", "stop it after this time, such as 90s or 5m")
    .option("--keep", "do not delete the sandbox; its name is printed at the end")
    .addHelpText(
      "after",
      `
The sandbox is deleted when the command has ended, also after Ctrl-C or a failure.
Exit codes are those of \`catnap exec\`.

Examples:
  catnap run -- python3 -c 'import platform; print(platform.platform())'
  catnap run --image docker.io/library/alpine:3.20 --memory 512 -- cat /etc/os-release`,
    );
  addConnectionOptions(command).action(async (argv: string[], options: Options) => {
    const timeoutMs = parseTimeoutMs("--timeout", options.timeout);
    const input = toSandboxInput(options, context.env);
    using connection = connect(context, options);
    using stopper = new Stopper(context);
    // Named here, so that it can be deleted even if the answer to its creation never comes.
    const name = `run-${randomToken(12)}`;
    input.metadata.name = name;
    try {
      const sandbox = await createUnlessStopped(connection, input, stopper.signal);
      const client = connection.sandbox(sandbox);
      const request = { argv, workingDir: options.cwd };
      const result = await runInForeground({ client, context, stopper }, request, { timeoutMs, json: options.json });
      if (options.json === true) context.stdout.write(formatResult(name, result));
      finish(result.exitCode);
    } catch (error) {
      if (stopper.exitCode === undefined) throw error;
      finish(stopper.exitCode);
    } finally {
      if (options.keep === true) context.stderr.write(`${name}\n`);
      else await deleteQuietly(connection, name, context);
    }
  });
}

/** A creation under way is waited for a little when it is to stop: deleting what does not exist yet would leave it over. */
async function createUnlessStopped({ platform }: Connection, input: SandboxInput, stop: AbortSignal): Promise<Sandbox> {
  const abandon = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const onStop = (): void => {
    timer = setTimeout(() => abandon.abort(), createGraceMs);
  };
  stop.throwIfAborted();
  stop.addEventListener("abort", onStop, { once: true });
  try {
    return await platform.createSandbox(input, abandon.signal);
  } finally {
    stop.removeEventListener("abort", onStop);
    clearTimeout(timer);
  }
}

/** What the command did matters more than a sandbox left over, so that is said and not thrown. */
async function deleteQuietly({ platform }: Connection, name: string, { stderr }: CliContext): Promise<void> {
  try {
    await platform.deleteSandbox(name);
  } catch (error) {
    if (error instanceof CliFailure && error.kind === "notFound") return;
    stderr.write(`catnap: sandbox ${name} could not be deleted; try: catnap sandbox delete --yes ${name}\n`);
  }
}
