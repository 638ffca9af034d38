// `catnap features list`: every feature known for a workspace, whether it is on, and who says so.
import type { Command } from "commander";
import { listFeatureSettings } from "../../contract/operator/features.ts";
import type { CliContext } from "../context.ts";
import { printable } from "../failure.ts";
import { formatJson } from "../format.ts";
import { addOperatorOptions, connectOperator, type OperatorOptions } from "../http/operator-client.ts";
import { formatTable } from "../table.ts";
import { addWorkspaceOption, type WorkspaceOption, workspaceOf } from "../workspace-option.ts";

export function defineFeaturesList(command: Command, context: CliContext): void {
  addWorkspaceOption(addOperatorOptions(command)).action(async (options: OperatorOptions & WorkspaceOption) => {
    using operator = connectOperator(context, options);
    const answer = await operator.call(listFeatureSettings, { params: { workspace: workspaceOf(context, options) } });
    const { features, file } = answer;
    if (file?.problem !== undefined) context.stderr.write(`catnap: ${printable(file.problem)}\n`);
    if (options.json === true) context.stdout.write(formatJson(answer));
    else if (features.length === 0)
      context.stderr.write("No feature is known. `catnap features enable` turns one on.\n");
    else {
      const columns = [{ title: "NAME" }, { title: "STATE" }, { title: "VARIANT" }, { title: "SET BY" }];
      const rows = features.map(({ name, enabled, variant = "", source }) => [
        name,
        enabled ? "on" : "off",
        variant,
        source,
      ]);
      context.stdout.write(formatTable(columns, rows));
    }
  });
}
