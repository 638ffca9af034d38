// `catnap audit`: who changed what on this installation, and who was refused, newest first.
import type { Command } from "commander";
import { readAuditLog } from "../../contract/operator/audit.ts";
import type { CliContext } from "../context.ts";
import { printable, usageFailure } from "../failure.ts";
import { formatJson } from "../format.ts";
import { addOperatorOptions, connectOperator, type OperatorOptions } from "../http/operator-client.ts";
import { formatTable } from "../table.ts";

type Options = OperatorOptions & { limit: string; since?: string; sub?: string; cursor?: string };

export function defineAudit(command: Command, context: CliContext): void {
  addOperatorOptions(command)
    .option("--limit <count>", "at most so many, up to 200", "50")
    .option("--since <time>", "only from this time on, such as 2030-01-31T12:00:00Z")
    .option("--sub <id>", "only what this user or service account did")
    .option("--cursor <cursor>", "go on where the list before ended")
    .action(async ({ limit, since, sub, cursor, ...options }: Options) => {
      if (!/^\d{1,3}$/.test(limit)) throw usageFailure("--limit takes a number from 1 to 200.");
      using operator = connectOperator(context, options);
      const page = await operator.call(readAuditLog, { query: { limit: Number(limit), since, sub, cursor } });
      if (options.json === true) return void context.stdout.write(formatJson(page));
      const titles = ["TIME", "WHO", "WORKSPACE", "OPERATION", "RESOURCE", "STATUS", "FROM"];
      const rows = page.data.map((entry) =>
        [
          entry.time,
          entry.subName ?? entry.sub ?? "",
          entry.workspace ?? "",
          entry.operation,
          entry.resource ?? "",
          String(entry.status),
          entry.address ?? "",
        ].map(printable),
      );
      context.stdout.write(
        formatTable(
          titles.map((title) => ({ title })),
          rows,
        ),
      );
      const { nextCursor } = page.meta;
      if (nextCursor !== undefined) context.stderr.write(`There is more: --cursor ${printable(nextCursor)}\n`);
    });
}
