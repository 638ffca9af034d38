// `catnap keys rotate`: seals everything with a new key while the platform serves, and waits until the old one is dropped.
import { setTimeout as delay } from "node:timers/promises";
import type { Command } from "commander";
import { getSealKey, rotateSealKey, type SealKeyStatus } from "../../contract/operator/seal-key.ts";
import type { CliContext } from "../context.ts";
import { CliFailure } from "../failure.ts";
import { formatJson } from "../format.ts";
import { addOperatorOptions, connectOperator, type OperatorOptions } from "../http/operator-client.ts";

const pollMs = 500;

export function defineKeysRotate(command: Command, context: CliContext): void {
  command.addHelpText(
    "after",
    `
It takes a few minutes at least: what was sealed a moment before the change may still be on its way to the database.
Interrupting this command does not stop it; running it again shows how it goes, or goes on after a restart of the platform.
Afterwards back up the key file anew: backups of the database need the key of their time.`,
  );
  addOperatorOptions(command).action(async (options: OperatorOptions) => {
    using operator = connectOperator(context, options);
    let status = await operator.call(rotateSealKey);
    let shown = "";
    while (isUnderWay(status)) {
      const line = describe(status);
      if (line !== shown) context.stderr.write(`${line}\n`);
      shown = line;
      await delay(pollMs);
      status = await operator.call(getSealKey);
    }
    const { rotation } = status;
    if (rotation?.phase !== "done") {
      throw new CliFailure("failure", rotation?.reason ?? "The platform was restarted before the change had ended.", {
        remedy: "Nothing is lost: both keys stay in use. `catnap keys rotate` goes on.",
      });
    }
    if (options.json === true) context.stdout.write(formatJson(status));
    else context.stdout.write(`sealing key ${status.keyId}; ${rotation.resealed} texts sealed anew\n`);
  });
}

function isUnderWay({ rotation }: SealKeyStatus): boolean {
  return rotation?.phase === "sealing" || rotation?.phase === "settling";
}

function describe({ rotation }: SealKeyStatus): string {
  const { phase, resealed = 0, remaining = 0 } = rotation ?? {};
  if (phase === "settling") return `${resealed} texts sealed anew; waiting for what is on its way`;
  return `${resealed} texts sealed anew, ${remaining} to go`;
}
