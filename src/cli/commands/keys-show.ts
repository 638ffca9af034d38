// `catnap keys show`: which sealing key the platform on this machine uses, and whether a change of it has ended.
import type { Command } from "commander";
import { getSealKey } from "../../contract/operator/seal-key.ts";
import type { CliContext } from "../context.ts";
import { formatJson } from "../format.ts";
import { addOperatorOptions, connectOperator, type OperatorOptions } from "../http/operator-client.ts";

export function defineKeysShow(command: Command, context: CliContext): void {
  addOperatorOptions(command).action(async (options: OperatorOptions) => {
    using operator = connectOperator(context, options);
    const status = await operator.call(getSealKey);
    const { keyId, previousKeyIds, source } = status;
    if (options.json === true) {
      context.stdout.write(formatJson(status));
      return;
    }
    context.stdout.write(`sealing key ${keyId} (from the ${source === "file" ? "key file" : "environment"})\n`);
    if (previousKeyIds.length === 0) return;
    context.stdout.write(
      `still needed: ${previousKeyIds.join(", ")}; \`catnap keys rotate\` seals anew what needs it\n`,
    );
  });
}
