// `catnap version`: the version of this program and of what it runs on.
import type { Command } from "commander";
import type { CliContext } from "../context.ts";
import { readVersion } from "../version.ts";

export function defineVersion(command: Command, context: CliContext): void {
  command.option("--json", "print JSON instead of text").action(({ json }: { json?: boolean }) => {
    const version = readVersion(context.projectDir);
    const runsOn = `node${process.versions.node}`;
    context.stdout.write(
      json === true ? `${JSON.stringify({ version, node: process.versions.node })}\n` : `catnap ${version} ${runsOn}\n`,
    );
  });
}
