// Builds the command line out of the list of commands and runs one.
import { Command, CommanderError } from "commander";
import { type CommandEntry, commands, groupSummaries } from "./command-list.ts";
import type { CliContext } from "./context.ts";
import { exitCodes } from "./failure.ts";
import { capitalized } from "./format.ts";
import { reportFailure } from "./report-failure.ts";
import { readVersion } from "./version.ts";

const rootHelp = `
Exit codes:
  0    done
  1    failed
  2    wrong usage
  3    there is no such sandbox, file or path
  4    no API key, or the key may not do this
  5    the platform cannot be reached
  130  interrupted
  exec and run pass on the command's exit code (128 + n when signal n ended it);
  124 is a timeout, 125 a failure of catnap itself, 126 and 127 a command that cannot be run.

Examples:
  npm start                                        start the platform
  catnap run -- python3 -c 'print("hello")'        one command in a fresh sandbox
  catnap sandbox create --name dev                 a sandbox that stays
  catnap exec dev -- sh -c 'echo $HOME | wc -c'    a command in it
  catnap cp report.csv dev:/data/                  a file into it`;

/** Runs one command line and returns the exit code of the program. */
export async function runCli(args: readonly string[], context: CliContext): Promise<number> {
  let exitCode: number = exitCodes.ok;
  const words = args[0] === "help" ? args.slice(1) : args;
  const asked = commands.find(({ path }) => path.every((word, index) => words[index] === word));
  const group = words[0] !== undefined && Object.hasOwn(groupSummaries, words[0]) ? words[0] : undefined;
  const named = group === undefined ? words[0] : words[1];
  const isUnknown = asked === undefined && named !== undefined && named !== "help" && !named.startsWith("-");
  const usesJson = args.slice(0, args.includes("--") ? args.indexOf("--") : undefined).includes("--json");
  try {
    const program = await buildProgram(asked, context, (code) => {
      exitCode = code;
    });
    // Commander's own `help` knows only the first word of a command, and shows its own for a command that does not exist.
    const isHelp = args[0] === "help" && asked !== undefined;
    await program.parseAsync(
      isHelp ? [...asked.path, "--help"] : isUnknown ? words.filter((word) => !isHelpFlag(word)) : args,
      { from: "user" },
    );
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return exitCodes.ok;
    if (error instanceof CommanderError && error.code === "commander.help") return exitCodes.usage;
    return reportFailure(error, { context, usesJson, asked, group });
  }
}

function isHelpFlag(word: string): boolean {
  return word === "--help" || word === "-h";
}

async function buildProgram(
  asked: CommandEntry | undefined,
  context: CliContext,
  finish: (exitCode: number) => void,
): Promise<Command> {
  const program = configure(new Command("catnap"), context)
    .description(
      "A self-hostable sandbox platform: isolated Linux machines that sleep when idle and wake on the next request.",
    )
    .version(readVersion(context.projectDir), "-V, --version", "print the version")
    .usage("<command> [options]")
    .helpCommand("help [command]", "show the help of a command")
    .addHelpText("after", rootHelp);
  const groups = new Map<string, Command>();
  for (const entry of commands) {
    const [first, second] = entry.path;
    let parent = program;
    if (second !== undefined) {
      parent =
        groups.get(first) ??
        configure(program.command(first), context)
          .description(`${capitalized(groupSummaries[first] ?? first)}.`)
          .summary(groupSummaries[first] ?? first);
      groups.set(first, parent);
    }
    const command = configure(parent.command(second ?? first), context).summary(entry.summary);
    if (entry === asked) (await entry.load())(command.description(`${capitalized(entry.summary)}.`), context, finish);
  }
  return program;
}

/** Commands do not inherit these settings, so each gets them. */
function configure(command: Command, { stdout, stderr }: CliContext): Command {
  return command
    .exitOverride()
    .showSuggestionAfterError()
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      // Messages are written by this program, with the way out; what remains is the help of an incomplete command.
      writeErr: (text) => {
        if (!text.startsWith("error: ")) stderr.write(text);
      },
      getOutHelpWidth: () => Math.min(stdout.columns || 100, 110),
      getErrHelpWidth: () => Math.min(stderr.columns || 100, 110),
    })
    .helpOption("-h, --help", "show this help");
}
