// `catnap users …`: the people of this installation, managed by the operator of the machine.
import type { Command } from "commander";
import {
  addUser,
  changeUser,
  createUserKey,
  listUsers,
  type OperatorUser,
  removeUser,
} from "../../contract/operator/users.ts";
import type { CliContext } from "../context.ts";
import { usageFailure } from "../failure.ts";
import { formatJson } from "../format.ts";
import { addOperatorOptions, connectOperator, type OperatorOptions } from "../http/operator-client.ts";
import { readPassword } from "../password.ts";
import { formatTable } from "../table.ts";

export function defineUsersList(command: Command, context: CliContext): void {
  addOperatorOptions(command).action(async (options: OperatorOptions) => {
    using operator = connectOperator(context, options);
    const users = await operator.call(listUsers);
    if (options.json === true) return void context.stdout.write(formatJson(users));
    const columns = [{ title: "NAME" }, { title: "EMAIL" }, { title: "PASSWORD" }, { title: "STATE" }];
    const rows = users.map(({ name, email = "", hasPassword, disabled }) => [
      name,
      email,
      hasPassword ? "yes" : "no",
      disabled ? "disabled" : "enabled",
    ]);
    context.stdout.write(formatTable(columns, rows));
  });
}

type AddOptions = OperatorOptions & {
  name?: string;
  givenName?: string;
  familyName?: string;
  workspace?: string;
  role?: string;
  password?: boolean;
};

export function defineUsersAdd(command: Command, context: CliContext): void {
  addOperatorOptions(command)
    .argument("<email>", "how the person signs in")
    .option("--name <name>", "what others see; the email if absent")
    .option("--given-name <name>")
    .option("--family-name <name>")
    .option("--workspace <name>", "make the person a member of it")
    .option("--role <role>", "admin or member", "member")
    .option("--password", "read a password from the terminal or standard input")
    .action(async (email: string, { name, givenName, familyName, workspace, role, ...options }: AddOptions) => {
      if (role !== "admin" && role !== "member") throw usageFailure("--role is admin or member.");
      const password = options.password === true ? await readPassword(context) : undefined;
      using operator = connectOperator(context, options);
      const body = { email, name, givenName, familyName, workspace, role, password } as const;
      const added = await operator.call(addUser, { body });
      report(context, options, added, `${labelOf(added)} is added`);
    });
}

export function defineUsersSetPassword(command: Command, context: CliContext): void {
  addUserArgument(command).action(async (user: string, options: OperatorOptions) => {
    const password = await readPassword(context);
    using operator = connectOperator(context, options);
    const changed = await operator.call(changeUser, { params: { user }, body: { password } });
    const how = changed.email === undefined ? "; `catnap users set-email` gives an address to sign in with" : "";
    report(context, options, changed, `the password of ${changed.name} is set${how}`);
  });
}

export function defineUsersSetEmail(command: Command, context: CliContext): void {
  addUserArgument(command)
    .argument("<email>", "how the person signs in from now on")
    .action(async (user: string, email: string, options: OperatorOptions) => {
      using operator = connectOperator(context, options);
      const changed = await operator.call(changeUser, { params: { user }, body: { email } });
      report(context, options, changed, `${changed.name} signs in as ${changed.email}`);
    });
}

export function defineUsersDisable(command: Command, context: CliContext): void {
  addUserArgument(command).action((user: string, options: OperatorOptions) => disable(context, options, user, true));
}

export function defineUsersEnable(command: Command, context: CliContext): void {
  addUserArgument(command).action((user: string, options: OperatorOptions) => disable(context, options, user, false));
}

export function defineUsersRemove(command: Command, context: CliContext): void {
  addUserArgument(command).action(async (user: string, options: OperatorOptions) => {
    using operator = connectOperator(context, options);
    const removed = await operator.call(removeUser, { params: { user } });
    report(context, options, removed, `${labelOf(removed)} is removed`);
  });
}

type KeyOptions = OperatorOptions & { workspace?: string; expiresIn?: string };

export function defineUsersCreateKey(command: Command, context: CliContext): void {
  addUserArgument(command)
    .option("--workspace <name>", "where the key acts when a request names no workspace")
    .option("--expires-in <duration>", "such as 30d; never if absent")
    .addHelpText("after", "\nPrints the new API key, which is shown nowhere else.")
    .action(async (user: string, { workspace, expiresIn, ...options }: KeyOptions) => {
      using operator = connectOperator(context, options);
      const body = { workspace, expires_in: expiresIn, name: "made by the operator" };
      const key = await operator.call(createUserKey, { params: { user }, body });
      context.stdout.write(options.json === true ? formatJson(key) : `${key.apiKey}\n`);
    });
}

function addUserArgument(command: Command): Command {
  return addOperatorOptions(command).argument("<user>", "email or name of the person");
}

async function disable(context: CliContext, options: OperatorOptions, user: string, disabled: boolean): Promise<void> {
  using operator = connectOperator(context, options);
  const changed = await operator.call(changeUser, { params: { user }, body: { disabled } });
  report(context, options, changed, `${labelOf(changed)} is ${disabled ? "disabled" : "enabled"}`);
}

function report({ stdout }: CliContext, { json }: OperatorOptions, user: OperatorUser, told: string): void {
  stdout.write(json === true ? formatJson(user) : `${told}\n`);
}

function labelOf({ email, name }: OperatorUser): string {
  return email ?? name;
}
