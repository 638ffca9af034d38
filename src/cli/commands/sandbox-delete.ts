// `catnap sandbox delete`: removes sandboxes and everything in them, after asking.
import type { Command } from "commander";
import { addConnectionOptions, type Connection, type ConnectionOptions, connect } from "../connection.ts";
import type { CliContext } from "../context.ts";
import { CliFailure, usageFailure } from "../failure.ts";

type Options = ConnectionOptions & { yes?: boolean };
type Outcome = { name: string; failure?: CliFailure };

const parallelMax = 4;

export function defineSandboxDelete(command: Command, context: CliContext): void {
  command
    .argument("<name...>", "names of the sandboxes")
    .option("-y, --yes", "do not ask")
    .addHelpText(
      "after",
      `
Everything in the sandboxes is lost. Every name is tried, also when one fails.

Examples:
  catnap sandbox delete dev
  catnap sandbox delete --yes test-1 test-2`,
    );
  addConnectionOptions(command).action(async (names: string[], options: Options) => {
    using connection = connect(context, options);
    if (options.yes !== true) await confirm(names, context);
    const outcomes = await deleteAll(connection, [...new Set(names)]);
    const failures = outcomes.flatMap(({ failure }) => failure ?? []);
    const deleted = outcomes.filter(({ failure }) => failure === undefined).map(({ name }) => name);
    if (options.json === true) context.stdout.write(`${JSON.stringify({ deleted })}\n`);
    else context.stdout.write(deleted.map((name) => `${name}\n`).join(""));
    const [first, ...others] = failures;
    if (first === undefined) return;
    if (others.length === 0) throw first;
    const kind = others.every((other) => other.kind === first.kind) ? first.kind : "failure";
    throw new CliFailure(kind, failures.map(({ message }) => message).join(" "), { remedy: first.remedy });
  });
}

async function confirm(names: readonly string[], { stdin, stderr }: CliContext): Promise<void> {
  if (stdin.isTTY !== true || stderr.isTTY !== true) {
    throw usageFailure("There is no terminal on which to ask whether to delete.", "Add --yes when you are sure.");
  }
  const { confirm: ask, isCancel } = await import("@clack/prompts");
  const what = names.length === 1 ? `sandbox ${names[0]}` : `${names.length} sandboxes: ${names.join(", ")}`;
  const answer = await ask({
    message: `Delete ${what}? Everything in it is lost.`,
    initialValue: false,
    output: stderr,
  });
  if (isCancel(answer) || !answer) throw new CliFailure("interrupted", "Nothing was deleted.");
}

async function deleteAll({ platform }: Connection, names: readonly string[]): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  const queue = [...names];
  const work = async (): Promise<void> => {
    for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
      const failure = await platform.deleteSandbox(name).then(
        () => undefined,
        (error: unknown) => {
          if (error instanceof CliFailure) return error;
          throw error;
        },
      );
      outcomes.push({ name, failure });
    }
  };
  await Promise.all(Array.from({ length: Math.min(parallelMax, names.length) }, work));
  return outcomes.sort((a, b) => names.indexOf(a.name) - names.indexOf(b.name));
}
