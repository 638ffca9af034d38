// `catnap sandbox list`: the sandboxes of a workspace as a table.
import type { Command } from "commander";
import type { Sandbox } from "../../contract/sandbox.ts";
import { addConnectionOptions, type ConnectionOptions, connect } from "../connection.ts";
import type { CliContext } from "../context.ts";
import { formatAge, formatJson } from "../format.ts";
import { formatTable } from "../table.ts";

type Options = ConnectionOptions & { status?: string; search?: string; all?: boolean; quiet?: boolean };

export function defineSandboxList(command: Command, context: CliContext): void {
  command
    .option("--status <status,...>", "only these, e.g. DEPLOYED,FAILED")
    .option("--search <text>", "only those whose name or labels contain this")
    .option("--all", "also those that have ended")
    .option("-q, --quiet", "print names only")
    .addHelpText(
      "after",
      `
Examples:
  catnap sandbox list
  catnap sandbox list --json | jq -r '.[].metadata.url'
  catnap sandbox list --quiet --search test- | xargs catnap sandbox delete --yes`,
    );
  addConnectionOptions(command).action(async (options: Options) => {
    using connection = connect(context, options);
    const { status, search, all: showTerminated } = options;
    const sandboxes: Sandbox[] = [];
    for await (const sandbox of connection.platform.listSandboxes({ status, search, showTerminated })) {
      sandboxes.push(sandbox);
    }
    if (options.json === true) context.stdout.write(formatJson(sandboxes));
    else if (options.quiet === true)
      context.stdout.write(sandboxes.map(({ metadata }) => `${metadata.name}\n`).join(""));
    else if (sandboxes.length > 0) context.stdout.write(toTable(sandboxes, Date.now()));
    else context.stderr.write("There are no sandboxes. `catnap sandbox create` makes one.\n");
  });
}

function toTable(sandboxes: readonly Sandbox[], nowMs: number): string {
  return formatTable(
    [
      { title: "NAME" },
      { title: "STATUS" },
      { title: "STATE" },
      { title: "IMAGE" },
      { title: "MEMORY", align: "right" },
      { title: "AGE", align: "right" },
      { title: "USED", align: "right" },
    ],
    sandboxes.map(({ metadata, status, state, spec, lastUsedAt }) => [
      metadata.name,
      status,
      state ?? "",
      spec.runtime?.image ?? "",
      spec.runtime?.memory === undefined ? "" : `${spec.runtime.memory} MB`,
      formatAge(metadata.createdAt, nowMs),
      formatAge(lastUsedAt, nowMs),
    ]),
  );
}
