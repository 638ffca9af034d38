// `catnap sandbox get`: everything a person wants to know of one sandbox, or its whole resource as JSON.
import type { Command } from "commander";
import type { Sandbox } from "../../contract/sandbox.ts";
import { addConnectionOptions, type ConnectionOptions, connect } from "../connection.ts";
import type { CliContext } from "../context.ts";
import { formatAge, formatJson } from "../format.ts";
import { formatTable } from "../table.ts";

export function defineSandboxGet(command: Command, context: CliContext): void {
  command.argument("<name>", "name of the sandbox").addHelpText(
    "after",
    `
Examples:
  catnap sandbox get dev
  curl -H "Authorization: Bearer $(catnap credentials --key)" "$(catnap sandbox get dev --json | jq -r .metadata.url)/health"`,
  );
  addConnectionOptions(command).action(async (name: string, options: ConnectionOptions) => {
    using connection = connect(context, options);
    const sandbox = await connection.platform.getSandbox(name);
    context.stdout.write(options.json === true ? formatJson(sandbox) : toText(sandbox, Date.now()));
  });
}

function toText({ metadata, spec, status, state, lastUsedAt, errors = [] }: Sandbox, nowMs: number): string {
  const runtime = spec.runtime ?? {};
  const ago = (timestamp: string | undefined): string => {
    const age = formatAge(timestamp, nowMs);
    return age === "" ? "" : `${timestamp} (${age} ago)`;
  };
  const rows = [
    ["name", metadata.name],
    ["status", state === undefined ? status : `${status}, ${state}`],
    ["url", metadata.url ?? ""],
    ["image", runtime.image ?? ""],
    ["memory", runtime.memory === undefined ? "" : `${runtime.memory} MB`],
    ["region", spec.region ?? ""],
    ["ports", (runtime.ports ?? []).map(({ target, protocol }) => `${target}/${protocol ?? "HTTP"}`).join(", ")],
    ["variables", (runtime.envs ?? []).map(({ name }) => name).join(", ")],
    [
      "labels",
      Object.entries(metadata.labels ?? {})
        .map((pair) => pair.join("="))
        .join(", "),
    ],
    ["created", ago(metadata.createdAt)],
    ["used", ago(lastUsedAt)],
    ...errors.map(({ time, code, message }) => ["error", `${time} ${code}: ${message}`]),
  ];
  return formatTable(
    [{ title: "" }, { title: "" }],
    rows.filter(([, value]) => value !== ""),
  );
}
