// How a failed command tells of it: a sentence and the way out, or one line of JSON, and the exit code.
import { CommanderError } from "commander";
import type { CommandEntry } from "./command-list.ts";
import type { CliContext } from "./context.ts";
import { CliFailure, exitCodes, printable } from "./failure.ts";
import { capitalized } from "./format.ts";

export type ReportOptions = {
  context: CliContext;
  usesJson: boolean;
  asked: CommandEntry | undefined;
  /** First word of the command, when it is one of a group. */
  group: string | undefined;
};

export function reportFailure(error: unknown, { context, usesJson, asked, group }: ReportOptions): number {
  const failure = toFailure(error, asked?.path ?? (group === undefined ? [] : [group]));
  const keepsCode = asked?.passesExitCode !== true || failure.kind === "interrupted" || failure.kind === "timedOut";
  const exitCode = keepsCode || failure.kind === "brokenPipe" ? failure.exitCode : exitCodes.infrastructure;
  const { kind, message, remedy, status, code } = failure;
  if (usesJson) {
    context.stderr.write(`${JSON.stringify({ error: kind, message, remedy, status, code, exitCode })}\n`);
  } else if (kind !== "brokenPipe") {
    context.stderr.write(`catnap: ${printable(message)}\n${remedy === undefined ? "" : `  ${printable(remedy)}\n`}`);
  }
  return exitCode;
}

function toFailure(error: unknown, path: readonly string[]): CliFailure {
  if (error instanceof CliFailure) return error;
  if (error instanceof CommanderError) {
    const message = error.message.replace(/^error: /, "").replace("\n(Did", " (did");
    return new CliFailure("usage", capitalized(message), {
      remedy: `\`catnap ${[...path, "--help"].join(" ")}\` shows how.`,
    });
  }
  return new CliFailure("failure", error instanceof Error ? error.message : String(error), { cause: error });
}
