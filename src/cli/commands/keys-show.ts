// `catnap keys show`: which sealing key the platform on this machine uses.
import type { Command } from "commander";
import { getSealKey } from "../../contract/operator/seal-key.ts";
import type { CliContext } from "../context.ts";
import { addOperatorOptions, connectOperator, type OperatorOptions } from "../http/operator-client.ts";

export function defineKeysShow(command: Command, context: CliContext): void {
  addOperatorOptions(command).action(async (options: OperatorOptions) => {
    using operator = connectOperator(context, options);
    const status = await operator.call(getSealKey);
    context.stdout.write(
      options.json === true ? `${JSON.stringify(status, undefined, 2)}\n` : `sealing key ${status.keyId}\n`,
    );
  });
}
