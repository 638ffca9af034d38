// Every command with the file it is in, which is loaded only when it is the one asked for.
import type { Command } from "commander";
import type { CliContext } from "./context.ts";

/** Sets options, help and action of one command. `finish` sets an exit code that is not a failure of this program. */
export type DefineCommand = (command: Command, context: CliContext, finish: (exitCode: number) => void) => void;

export type CommandEntry = {
  path: readonly [string] | readonly [string, string];
  summary: string;
  /** What it runs has exit codes of its own, so failures of this program get 125. */
  passesExitCode?: true;
  load(): Promise<DefineCommand>;
};

export const commands: readonly CommandEntry[] = [
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
    path: ["sandbox", "terminal"],
    summary: "print an address at which a browser has a shell in a sandbox",
    load: async () => (await import("./commands/sandbox-terminal.ts")).defineSandboxTerminal,
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
    path: ["audit"],
    summary: "show who changed what, and who was refused (operator of the machine)",
    load: async () => (await import("./commands/audit.ts")).defineAudit,
  },
  {
    path: ["keys", "show"],
    summary: "say which sealing key is in use",
    load: async () => (await import("./commands/keys-show.ts")).defineKeysShow,
  },
  {
    path: ["keys", "rotate"],
    summary: "seal everything with a new key",
    load: async () => (await import("./commands/keys-rotate.ts")).defineKeysRotate,
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
    path: ["version"],
    summary: "print the version",
    load: async () => (await import("./commands/version.ts")).defineVersion,
  },
];

/** What the commands of a group are about, by its first word. */
export const groupSummaries: Readonly<Record<string, string>> = {
  sandbox: "create, list, show and delete sandboxes",
  features: "turn features of workspaces on and off (operator of the machine)",
  quotas: "limit what workspaces may have (operator of the machine)",
  oauth: "programs that people sign in to, and signing keys (operator of the machine)",
  users: "people, their passwords and keys (operator of the machine)",
  keys: "show and rotate the sealing key (operator of the machine)",
};
