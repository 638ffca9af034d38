// `catnap credentials`: the one command that prints the API key, for other programs to use.
import type { Command } from "commander";
import type { CliContext } from "../context.ts";
import { findCredentials } from "../credentials.ts";
import { printable } from "../failure.ts";
import { formatJson } from "../format.ts";
import { quoteArguments } from "../process/quote.ts";
import { clientVariables } from "../up/paste-lines.ts";

type Options = { key?: boolean; json?: boolean; dataDir?: string };

export function defineCredentials(command: Command, context: CliContext): void {
  command
    .option("--key", "print the API key alone")
    .option("--json", "print JSON instead of text")
    .option("--data-dir <dir>", "where a local platform keeps its credentials file (or CATNAP_DATA_DIR)")
    .addHelpText(
      "after",
      `
Prints the environment with which the official TypeScript client uses this platform. It contains the API key.

Examples:
  eval "$(catnap credentials)" && node my-agent.js
  curl -H "Authorization: Bearer $(catnap credentials --key)" http://127.0.0.1:4000/v0/sandboxes`,
    )
    .action((options: Options) => {
      const { env, homeDir, stdout, stderr } = context;
      const warn = (message: string): void => void stderr.write(`catnap: ${printable(message)}\n`);
      const credentials = findCredentials({ env, homeDir, flags: options, warn });
      if (options.key === true) stdout.write(`${credentials.apiKey}\n`);
      else if (options.json === true) stdout.write(formatJson(credentials));
      else {
        const lines = clientVariables(credentials).map(
          ([name, value]) => `export ${name}=${quoteArguments([value])}\n`,
        );
        stdout.write(lines.join(""));
      }
    });
}
