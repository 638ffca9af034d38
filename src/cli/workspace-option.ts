// The workspace that a command for the operator of the machine is about.
import type { Command } from "commander";
import type { CliContext } from "./context.ts";
import { usageFailure } from "./failure.ts";

export type WorkspaceOption = { workspace?: string };

export function addWorkspaceOption(command: Command): Command {
  return command.option("--workspace <name>", "the workspace this is about (or CATNAP_WORKSPACE)");
}

/** Asked for by name always: the operator belongs to no workspace, so there is none that could be meant. */
export function workspaceOf({ env }: CliContext, { workspace }: WorkspaceOption): string {
  const name = workspace ?? (env.CATNAP_WORKSPACE || undefined);
  if (name === undefined) throw usageFailure("Name a workspace with --workspace.");
  if (!/^[a-z0-9-]{1,63}$/.test(name)) throw usageFailure(`${JSON.stringify(name)} is not the name of a workspace.`);
  return name;
}
