// `catnap backup FILE`: copies the database of the platform on this machine while it runs.
import { resolve } from "node:path";
import type { Command } from "commander";
import { createBackup } from "../../contract/operator/backup.ts";
import type { CliContext } from "../context.ts";
import { formatJson } from "../format.ts";
import { addOperatorOptions, connectOperator, type OperatorOptions } from "../http/operator-client.ts";

const timeoutMs = 30 * 60_000;

export function defineBackup(command: Command, context: CliContext): void {
  addOperatorOptions(command)
    .argument("<file>", "where to; must not exist yet")
    .action(async (file: string, options: OperatorOptions) => {
      using operator = connectOperator(context, options);
      const backup = await operator.call(createBackup, { body: { path: resolve(file) } }, { timeoutMs });
      const { path, bytes, keyId } = backup;
      context.stdout.write(
        options.json === true
          ? formatJson(backup)
          : `${path}: ${bytes} bytes. It can be used with the sealing key ${keyId} only: keep seal.key, elsewhere.\n`,
      );
    });
}
