// `catnap features enable`, `disable` and `reset`: what the operator of the machine sets for a feature in a workspace.
import type { Command } from "commander";
import { featureNameMaxLength, featureNamePattern } from "../../contract/feature.ts";
import { type FeatureEntry, type FeatureSetting, resetFeature, setFeature } from "../../contract/operator/features.ts";
import type { CliContext } from "../context.ts";
import { usageFailure } from "../failure.ts";
import { formatJson } from "../format.ts";
import { addOperatorOptions, connectOperator, type OperatorOptions } from "../http/operator-client.ts";
import { addWorkspaceOption, type WorkspaceOption, workspaceOf } from "../workspace-option.ts";

type Options = OperatorOptions & WorkspaceOption & { variant?: string; payload?: string };

export function defineFeaturesEnable(command: Command, context: CliContext): void {
  addFeatureArgument(command)
    .option("--variant <name>", "the variant callers are told")
    .option("--payload <json>", "a JSON object callers are given")
    .action((name: string, options: Options) => {
      const { variant, payload } = options;
      const setting: FeatureSetting = {
        enabled: true,
        ...(variant !== undefined && { variant }),
        ...(payload !== undefined && { payload: readPayload(payload) }),
      };
      return set(context, name, setting, options);
    });
}

export function defineFeaturesDisable(command: Command, context: CliContext): void {
  addFeatureArgument(command).action((name: string, options: Options) =>
    set(context, name, { enabled: false }, options),
  );
}

export function defineFeaturesReset(command: Command, context: CliContext): void {
  addFeatureArgument(command).action(async (featureKey: string, options: Options) => {
    using operator = connectOperator(context, options);
    const workspace = workspaceOf(context, options);
    report(context, options, await operator.call(resetFeature, { params: { workspace, featureKey } }));
  });
}

function addFeatureArgument(command: Command): Command {
  return addWorkspaceOption(addOperatorOptions(command)).argument("<name>", "name of the feature", readFeatureName);
}

/** Checked here, because in a path a name that breaks the rule is a path that leads nowhere. */
function readFeatureName(name: string): string {
  if (name.length <= featureNameMaxLength && new RegExp(featureNamePattern).test(name)) return name;
  throw usageFailure(
    `A feature's name is a letter followed by letters, digits, dots, dashes and underscores, up to ${featureNameMaxLength} in all.`,
  );
}

async function set(context: CliContext, featureKey: string, body: FeatureSetting, options: Options): Promise<void> {
  using operator = connectOperator(context, options);
  const workspace = workspaceOf(context, options);
  report(context, options, await operator.call(setFeature, { params: { workspace, featureKey }, body }));
}

function report(context: CliContext, { json }: Options, entry: FeatureEntry): void {
  const text = `${entry.name} is ${entry.enabled ? "on" : "off"} (${entry.source})`;
  context.stdout.write(json === true ? formatJson(entry) : `${text}\n`);
}

function readPayload(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Said below.
  }
  throw usageFailure("--payload must be a JSON object.");
}
