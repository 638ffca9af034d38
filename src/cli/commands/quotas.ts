// `catnap quotas list`, `set` and `reset`: how much a workspace may have, for the operator of the machine.
import type { Command } from "commander";
import { listQuotaSettings, type QuotaEntry, resetQuota, setQuota } from "../../contract/operator/quotas.ts";
import { type QuotaType, quotaTypes } from "../../contract/quota.ts";
import type { CliContext } from "../context.ts";
import { usageFailure } from "../failure.ts";
import { formatJson } from "../format.ts";
import { addOperatorOptions, connectOperator, type OperatorOptions } from "../http/operator-client.ts";
import { formatTable } from "../table.ts";
import { addWorkspaceOption, type WorkspaceOption, workspaceOf } from "../workspace-option.ts";

type Options = OperatorOptions & WorkspaceOption;

const units: Readonly<Record<QuotaType, string>> = { sandboxes: "", memory: "MB", terminatedRetention: "s" };

export function defineQuotasList(command: Command, context: CliContext): void {
  addOptions(command).action(async (options: Options) => {
    using operator = connectOperator(context, options);
    const quotas = await operator.call(listQuotaSettings, { params: { workspace: workspaceOf(context, options) } });
    if (options.json === true) return void context.stdout.write(formatJson(quotas));
    const columns = [{ title: "QUOTA" }, { title: "VALUE" }, { title: "SET BY" }];
    const rows = quotas.map(({ resourceType, value, source }) => [resourceType, withUnit(resourceType, value), source]);
    context.stdout.write(formatTable(columns, rows));
  });
}

export function defineQuotasSet(command: Command, context: CliContext): void {
  addTypeArgument(command)
    .argument("<value>", "a whole number: sandboxes, megabytes of memory, or seconds of retention")
    .action(async (type: string, text: string, options: Options) => {
      if (!/^\d{1,13}$/.test(text)) throw usageFailure("The value must be a whole number.");
      using operator = connectOperator(context, options);
      const params = { workspace: workspaceOf(context, options), resourceType: readType(type) };
      report(context, options, await operator.call(setQuota, { params, body: { value: Number(text) } }));
    });
}

export function defineQuotasReset(command: Command, context: CliContext): void {
  addTypeArgument(command).action(async (type: string, options: Options) => {
    using operator = connectOperator(context, options);
    const params = { workspace: workspaceOf(context, options), resourceType: readType(type) };
    report(context, options, await operator.call(resetQuota, { params }));
  });
}

function addOptions(command: Command): Command {
  return addWorkspaceOption(addOperatorOptions(command));
}

function addTypeArgument(command: Command): Command {
  return addOptions(command).argument("<quota>", `one of ${quotaTypes.join(", ")}`);
}

function readType(text: string): QuotaType {
  const type = quotaTypes.find((one) => one === text);
  if (type === undefined) throw usageFailure(`The quota must be one of ${quotaTypes.join(", ")}.`);
  return type;
}

function report({ stdout }: CliContext, { json }: Options, entry: QuotaEntry): void {
  const { resourceType, value, source } = entry;
  const text = `${resourceType} is ${withUnit(resourceType, value)} (${source})`;
  stdout.write(json === true ? formatJson(entry) : `${text}\n`);
}

function withUnit(type: QuotaType, value: number): string {
  return `${value} ${units[type]}`.trimEnd();
}
