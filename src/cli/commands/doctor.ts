// `catnap doctor`: what is missing on this machine, and the command that mends it.
import { join } from "node:path";
import type { Command } from "commander";
import type { CliContext } from "../context.ts";
import { defaultDataDir } from "../credentials.ts";
import type { CheckResult, CheckStatus, Installation } from "../doctor/check.ts";
import { examine } from "../doctor/checks.ts";
import { createProbes } from "../doctor/probes.ts";
import { exitCodes, usageFailure } from "../failure.ts";
import { formatJson } from "../format.ts";
import { formatTable } from "../table.ts";

type Options = { json?: boolean; listen?: string; dataDir?: string };

const marks: Record<CheckStatus, string> = { ok: "ok", note: "note", problem: "PROBLEM" };

export function defineDoctor(command: Command, context: CliContext, finish: (exitCode: number) => void): void {
  command
    .option("--json", "print JSON instead of text")
    .option("--listen <host:port>", "the address the platform is to answer on (or CATNAP_LISTEN)")
    .option("--data-dir <dir>", "its data directory (or CATNAP_DATA_DIR)")
    .addHelpText(
      "after",
      "\nChanges nothing. Exit code 1 when something needed is missing.\n\nExample:\n  catnap doctor",
    )
    .action(async (options: Options) => {
      const { color } = await import("../color.ts");
      const results = await examine(createProbes(context.env, context.userId), readInstallation(options, context));
      const problems = results.filter(({ status }) => status === "problem");
      if (options.json === true) context.stdout.write(formatJson({ ok: problems.length === 0, checks: results }));
      else context.stdout.write(toText(results, problems.length, color(context)));
      if (problems.length > 0) finish(exitCodes.failure);
    });
}

function toText(
  results: readonly CheckResult[],
  problemCount: number,
  paint: (status: CheckStatus, text: string) => string,
): string {
  const lines = formatTable(
    [{ title: "" }, { title: "" }, { title: "" }],
    results.map(({ name, status, found, remedy }) => [
      marks[status],
      name,
      remedy === undefined ? found : `${found}  ->  ${remedy}`,
    ]),
  )
    .trimEnd()
    .split("\n")
    .map((line, index) => paint(results[index]!.status, line));
  const summary =
    problemCount === 0
      ? "This machine can run catnap: npm start"
      : `${problemCount} to mend; \`npm start\` installs and builds what it can.`;
  return `${lines.join("\n")}\n\n${summary}\n`;
}

function readInstallation({ listen, dataDir: dataDirFlag }: Options, { env, projectDir }: CliContext): Installation {
  const dataDir = dataDirFlag ?? (env.CATNAP_DATA_DIR || defaultDataDir);
  const address = listen ?? (env.CATNAP_LISTEN || "127.0.0.1:4000");
  const match = /^(?:(.+):)?(\d{1,5})$/.exec(address);
  const port = Number(match?.[2]);
  if (match === null || port > 65_535) throw usageFailure(`The listen address must be HOST:PORT, not ${address}.`);
  return {
    dataDir,
    imageDir: env.CATNAP_IMAGE_DIR || join(dataDir, "images"),
    guestBinary: env.CATNAP_GUEST_BINARY || join(projectDir, "guest/build/catnap-init"),
    ociRuntime: env.CATNAP_OCI_RUNTIME || "runc",
    host: (match[1] ?? "127.0.0.1").replace(/[[\]]/g, ""),
    port,
  };
}
