// `catnap sandbox terminal`: an address at which a browser has a shell in a sandbox for a while.
import type { Command } from "commander";
import { parseDurationMs } from "../../core/duration.ts";
import { addConnectionOptions, type ConnectionOptions, connect } from "../connection.ts";
import type { CliContext } from "../context.ts";
import { usageFailure } from "../failure.ts";
import { formatJson } from "../format.ts";

type Options = ConnectionOptions & { ttl: string };

/** A day: addresses are copied to places where they are forgotten. */
const ttlMaxMs = 86_400_000;

export function defineSandboxTerminal(command: Command, context: CliContext): void {
  command
    .argument("<name>", "name of the sandbox")
    .option("--ttl <duration>", "how long the address works, such as 15m or 8h, at most 24h", "1h")
    .addHelpText(
      "after",
      `
Whoever has the address can run programs in the sandbox until it ends. It is a preview of the sandbox, which can be deleted before.

Examples:
  catnap sandbox terminal dev
  catnap sandbox terminal dev --ttl 10m`,
    );
  addConnectionOptions(command).action(async (name: string, options: Options) => {
    const ttlMs = parseDurationMs(options.ttl);
    if (ttlMs === undefined || ttlMs < 1_000 || ttlMs > ttlMaxMs) {
      throw usageFailure(`--ttl takes a duration from 1s to 24h, such as 15m, not ${options.ttl}.`);
    }
    using connection = connect(context, options);
    const { preview, token } = await connection.platform.openSession(name, new Date(Date.now() + ttlMs).toISOString());
    const url = `${preview.spec.url}/terminal?bl_preview_token=${token}`;
    const answer = { url, preview: preview.metadata.name, expiresAt: preview.spec.expires };
    context.stdout.write(options.json === true ? formatJson(answer) : `${url}\n`);
  });
}
