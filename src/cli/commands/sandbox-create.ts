// `catnap sandbox create`: a sandbox that stays until it is deleted.
import type { Command } from "commander";
import { addConnectionOptions, type ConnectionOptions, connect } from "../connection.ts";
import type { CliContext } from "../context.ts";
import { usageFailure } from "../failure.ts";
import { formatDuration, formatJson } from "../format.ts";
import { collect, parsePairs } from "../option-values.ts";
import { addShapeOptions, type ShapeOptions, toSandboxInput } from "../sandbox-shape.ts";

type Options = ConnectionOptions & ShapeOptions & { name?: string; label?: string[]; port?: string[] };

const protocols = ["HTTP", "TCP", "UDP", "TLS"] as const;

export function defineSandboxCreate(command: Command, context: CliContext): void {
  addShapeOptions(command.option("--name <name>", "lowercase letters, digits and hyphens; made up when absent"))
    .option("--label <key=value>", "label it; may be repeated", collect)
    .option("--port <port[/protocol]>", "declare a port, HTTP unless /TCP, /UDP or /TLS; may be repeated", collect)
    .addHelpText(
      "after",
      `
Prints the name of the sandbox once it is usable.

Examples:
  catnap sandbox create --name dev --memory 2048
  catnap sandbox create --image docker.io/library/alpine:3.20 --env MODE=test
  TOKEN=… catnap sandbox create --secret-env TOKEN`,
    );
  addConnectionOptions(command).action(async (options: Options) => {
    const input = toSandboxInput(options, context.env);
    if (options.name !== undefined) input.metadata.name = options.name;
    const labels = parsePairs("--label", options.label);
    if (options.label !== undefined) input.metadata.labels = labels;
    if (options.port !== undefined) input.spec.runtime = { ...input.spec.runtime, ports: options.port.map(parsePort) };
    using connection = connect(context, options);
    const startedAtMs = performance.now();
    const sandbox = await connection.platform.createSandbox(input);
    if (options.json === true) {
      context.stdout.write(formatJson(sandbox));
      return;
    }
    context.stdout.write(`${sandbox.metadata.name}\n`);
    if (context.stderr.isTTY === true) {
      const took = formatDuration(performance.now() - startedAtMs);
      context.stderr.write(`ready after ${took}; try: catnap exec ${sandbox.metadata.name} -- uname -a\n`);
    }
  });
}

function parsePort(text: string): { target: number; protocol: (typeof protocols)[number] } {
  const match = /^(\d{1,5})(?:\/([A-Za-z]+))?$/.exec(text);
  const target = Number(match?.[1]);
  const protocol = protocols.find((known) => known === (match?.[2] ?? "HTTP").toUpperCase());
  if (match === null || protocol === undefined || target < 1 || target > 65_535) {
    throw usageFailure(`--port takes a number from 1 to 65535 and a protocol such as 5432/TCP, not ${text}.`);
  }
  return { target, protocol };
}
