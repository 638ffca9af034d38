// Builds the command line: a table of commands whose files are loaded only when they are the one asked for.
import { Command, CommanderError } from "commander";
import type { CliContext } from "./context.ts";
import { CliFailure, exitCodes, printable } from "./failure.ts";
import { readVersion } from "./version.ts";

/** Sets options, help and action of one command. `finish` sets an exit code that is not a failure of this program. */
export type DefineCommand = (command: Command, context: CliContext, finish: (exitCode: number) => void) => void;

type CommandEntry = {
  path: readonly [string] | readonly [string, string];
  summary: string;
  /** What it runs has exit codes of its own, so failures of this program get 125. */
  passesExitCode?: true;
  load(): Promise<DefineCommand>;
};

const commands: readonly CommandEntry[] = [
  {
    path: ["up"],
    summary: "start the platform on this machine, in the foreground",
    load: async () => (await import("./commands/up.ts")).defineUp,
  },
  {
    path: ["doctor"],
    summary: "say what is missing on this machine and what mends it",
    load: async () => (await import("./commands/doctor.ts")).defineDoctor,
  },
  {
    path: ["credentials"],
    summary: "print address and API key for other programs",
    load: async () => (await import("./commands/credentials.ts")).defineCredentials,
  },
  {
    path: ["sandbox", "create"],
    summary: "create a sandbox",
    load: async () => (await import("./commands/sandbox-create.ts")).defineSandboxCreate,
  },
  {
    path: ["sandbox", "list"],
    summary: "list the sandboxes",
    load: async () => (await import("./commands/sandbox-list.ts")).defineSandboxList,
  },
  {
    path: ["sandbox", "get"],
    summary: "show one sandbox",
    load: async () => (await import("./commands/sandbox-get.ts")).defineSandboxGet,
  },
  {
    path: ["sandbox", "delete"],
    summary: "delete sandboxes and everything in them",
    load: async () => (await import("./commands/sandbox-delete.ts")).defineSandboxDelete,
  },
  {
    path: ["exec"],
    summary: "run a command in a sandbox",
    passesExitCode: true,
    load: async () => (await import("./commands/exec.ts")).defineExec,
  },
  {
    path: ["run"],
    summary: "create a sandbox, run a command in it, delete it",
    passesExitCode: true,
    load: async () => (await import("./commands/run.ts")).defineRun,
  },
  {
    path: ["cp"],
    summary: "copy files between this machine and a sandbox",
    load: async () => (await import("./commands/cp.ts")).defineCp,
  },
  {
    path: ["features", "list"],
    summary: "list the features of a workspace and who has set them",
    load: async () => (await import("./commands/features-list.ts")).defineFeaturesList,
  },
  {
    path: ["features", "enable"],
    summary: "turn a feature on for a workspace",
    load: async () => (await import("./commands/features-set.ts")).defineFeaturesEnable,
  },
  {
    path: ["features", "disable"],
    summary: "turn a feature off for a workspace",
    load: async () => (await import("./commands/features-set.ts")).defineFeaturesDisable,
  },
  {
    path: ["features", "reset"],
    summary: "let the features file decide about a feature again",
    load: async () => (await import("./commands/features-set.ts")).defineFeaturesReset,
  },
  {
    path: ["backup"],
    summary: "copy the platform's database into a file (operator of the machine)",
    load: async () => (await import("./commands/backup.ts")).defineBackup,
  },
  {
    path: ["keys", "show"],
    summary: "say which sealing key is in use",
    load: async () => (await import("./commands/keys-show.ts")).defineKeysShow,
  },
  {
    path: ["oauth", "clients"],
    summary: "list the programs that people may sign in to",
    load: async () => (await import("./commands/oauth.ts")).defineOauthClients,
  },
  {
    path: ["oauth", "add-client"],
    summary: "register a program that people may sign in to",
    load: async () => (await import("./commands/oauth.ts")).defineOauthAddClient,
  },
  {
    path: ["oauth", "remove-client"],
    summary: "remove a program, with all tokens it was given",
    load: async () => (await import("./commands/oauth.ts")).defineOauthRemoveClient,
  },
  {
    path: ["oauth", "keys"],
    summary: "list the keys that access tokens are verified with",
    load: async () => (await import("./commands/oauth.ts")).defineOauthKeys,
  },
  {
    path: ["oauth", "rotate-keys"],
    summary: "sign access tokens with a new key from now on",
    load: async () => (await import("./commands/oauth.ts")).defineOauthRotateKeys,
  },
  {
    path: ["quotas", "list"],
    summary: "list how much a workspace may have",
    load: async () => (await import("./commands/quotas.ts")).defineQuotasList,
  },
  {
    path: ["quotas", "set"],
    summary: "set how much a workspace may have",
    load: async () => (await import("./commands/quotas.ts")).defineQuotasSet,
  },
  {
    path: ["quotas", "reset"],
    summary: "give a workspace the installation's quota again",
    load: async () => (await import("./commands/quotas.ts")).defineQuotasReset,
  },
  {
    path: ["users", "list"],
    summary: "list the people of this installation",
    load: async () => (await import("./commands/users.ts")).defineUsersList,
  },
  {
    path: ["users", "add"],
    summary: "add a person",
    load: async () => (await import("./commands/users.ts")).defineUsersAdd,
  },
  {
    path: ["users", "set-password"],
    summary: "set a person's password, which ends all sign-ins",
    load: async () => (await import("./commands/users.ts")).defineUsersSetPassword,
  },
  {
    path: ["users", "set-email"],
    summary: "set the email address with which a person signs in",
    load: async () => (await import("./commands/users.ts")).defineUsersSetEmail,
  },
  {
    path: ["users", "disable"],
    summary: "refuse all credentials of a person",
    load: async () => (await import("./commands/users.ts")).defineUsersDisable,
  },
  {
    path: ["users", "enable"],
    summary: "accept a disabled person's credentials again",
    load: async () => (await import("./commands/users.ts")).defineUsersEnable,
  },
  {
    path: ["users", "remove"],
    summary: "remove a person with all keys and memberships",
    load: async () => (await import("./commands/users.ts")).defineUsersRemove,
  },
  {
    path: ["users", "create-key"],
    summary: "make an API key for a person, such as an administrator who lost the first",
    load: async () => (await import("./commands/users.ts")).defineUsersCreateKey,
  },
  {
    path: ["audit"],
    summary: "show who changed what, and who was refused (operator of the machine)",
    load: async () => (await import("./commands/audit.ts")).defineAudit,
  },
  {
    path: ["keys", "rotate"],
    summary: "seal everything with a new key",
    load: async () => (await import("./commands/keys-rotate.ts")).defineKeysRotate,
  },
  {
    path: ["version"],
    summary: "print the version",
    load: async () => (await import("./commands/version.ts")).defineVersion,
  },
];

/** What the commands of a group are about, by its first word. */
const groupSummaries: Readonly<Record<string, string>> = {
  sandbox: "create, list, show and delete sandboxes",
  features: "turn features of workspaces on and off (operator of the machine)",
  quotas: "limit what workspaces may have (operator of the machine)",
  oauth: "programs that people sign in to, and signing keys (operator of the machine)",
  users: "people, their passwords and keys (operator of the machine)",
  keys: "show and rotate the sealing key (operator of the machine)",
};

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
  const usesJson = args.slice(0, args.includes("--") ? args.indexOf("--") : undefined).includes("--json");
  try {
    const program = await buildProgram(asked, context, (code) => {
      exitCode = code;
    });
    await program.parseAsync(args, { from: "user" });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return exitCodes.ok;
    if (error instanceof CommanderError && error.code === "commander.help") return exitCodes.usage;
    return reportFailure(error, { context, usesJson, passesExitCode: asked?.passesExitCode === true });
  }
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

function reportFailure(
  error: unknown,
  { context, usesJson, passesExitCode }: { context: CliContext; usesJson: boolean; passesExitCode: boolean },
): number {
  const failure = toFailure(error);
  const keepsCode = !passesExitCode || failure.kind === "interrupted" || failure.kind === "timedOut";
  const exitCode = keepsCode || failure.kind === "brokenPipe" ? failure.exitCode : exitCodes.infrastructure;
  const { kind, message, remedy, status, code } = failure;
  if (usesJson) {
    context.stderr.write(`${JSON.stringify({ error: kind, message, remedy, status, code, exitCode })}\n`);
  } else if (kind !== "brokenPipe") {
    context.stderr.write(`catnap: ${printable(message)}\n${remedy === undefined ? "" : `  ${printable(remedy)}\n`}`);
  }
  return exitCode;
}

function toFailure(error: unknown): CliFailure {
  if (error instanceof CliFailure) return error;
  if (error instanceof CommanderError) {
    const message = error.message.replace(/^error: /, "");
    return new CliFailure("usage", capitalized(message), {
      remedy: "`catnap --help` shows how; `catnap help <command>` says more.",
    });
  }
  return new CliFailure("failure", error instanceof Error ? error.message : String(error), { cause: error });
}

function capitalized(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
