// `catnap up`: the platform on this machine, in the foreground, until Ctrl-C.
import { setTimeout as delay } from "node:timers/promises";
import type { Command } from "commander";
import type { Platform } from "../../contract/platform.ts";
import { AppError } from "../../core/errors.ts";
import { createLogger, type LogLevel } from "../../core/log.ts";
import { Connection } from "../connection.ts";
import type { CliContext } from "../context.ts";
import { type Credentials, credentialsPath, readCredentialsFile, writeCredentialsFile } from "../credentials.ts";
import { CliFailure, printable, usageFailure } from "../failure.ts";
import { formatDuration } from "../format.ts";
import { formatTable } from "../table.ts";
import { untilStopped } from "../up/foreground.ts";
import { pasteLines } from "../up/paste-lines.ts";
import { type CheckPhase, selfCheck } from "../up/self-check.ts";
import { SlowSteps } from "../up/slow-steps.ts";
import { readVersion } from "../version.ts";

const logLevels: readonly LogLevel[] = ["trace", "debug", "info", "warn", "error", "silent"];

const warmWaitMs = 30_000;

/** Flags that mirror an environment variable and win over it. */
const settings = [
  {
    flag: "--listen <host:port>",
    key: "listen",
    variable: "CATNAP_LISTEN",
    help: "address to answer on (127.0.0.1:4000)",
  },
  {
    flag: "--data-dir <dir>",
    key: "dataDir",
    variable: "CATNAP_DATA_DIR",
    help: "where everything is kept (/var/lib/catnap)",
  },
  {
    flag: "--idle-timeout <duration>",
    key: "idleTimeout",
    variable: "CATNAP_IDLE_TIMEOUT",
    help: "sleep after this time unused (15s)",
  },
  {
    flag: "--sandbox-domain <domain>",
    key: "sandboxDomain",
    variable: "CATNAP_SANDBOX_DOMAIN",
    help: "domain of sandbox host names",
  },
  {
    flag: "--tls-cert <file>",
    key: "tlsCert",
    variable: "CATNAP_TLS_CERT",
    help: "answer with TLS, with the certificates in this file",
  },
  { flag: "--tls-key <file>", key: "tlsKey", variable: "CATNAP_TLS_KEY", help: "their private key" },
  { flag: "--oci-runtime <program>", key: "ociRuntime", variable: "CATNAP_OCI_RUNTIME", help: "OCI runtime (runc)" },
] as const;

type Options = Partial<Record<(typeof settings)[number]["key"], string>> & {
  logLevel?: string;
  selfCheck?: boolean;
  json?: boolean;
};

export function defineUp(command: Command, context: CliContext): void {
  for (const { flag, variable, help } of settings) command.option(flag, `${help}; or ${variable}`);
  command
    .option("--log-level <level>", `one of ${logLevels.join(", ")}; or CATNAP_LOG_LEVEL`)
    .option(
      "--self-check",
      "make, use, put to sleep and wake a sandbox before saying ready (default: at the first start)",
    )
    .option("--no-self-check", "never do that")
    .option("--json", "print one line of JSON when ready")
    .addHelpText(
      "after",
      `
Stays in the foreground. Ctrl-C stops the platform; sandboxes stay asleep and are there at the next start.
The first start prints the API key once and keeps it in credentials.json in the data directory.

Examples:
  npm start
  catnap up --listen 127.0.0.1:4100 --data-dir /srv/catnap --idle-timeout 1m`,
    )
    .action((options: Options) => up(options, context));
}

async function up(options: Options, context: CliContext): Promise<void> {
  const say = (text: string): void => void (options.json === true || context.stdout.write(text));
  say(`catnap ${readVersion(context.projectDir)} is starting\n`);
  const startedAtMs = performance.now();
  const log = createLogger(
    readLogLevel(options.logLevel ?? context.env.CATNAP_LOG_LEVEL, context.stderr.isTTY === true),
  );
  const overrides = Object.fromEntries(
    settings.flatMap(({ key, variable }) => (options[key] === undefined ? [] : [[variable, options[key]]])),
  );
  await untilStopped(context, say, async (stop) => {
    using slow = new SlowSteps(say);
    slow.begin("loading the platform");
    const startPlatform = await context.loadPlatform();
    const platform = await startPlatform({
      env: { ...context.env },
      overrides,
      log,
      onStep: (what) => slow.begin(what),
      saveFirstKey: (apiKey, { url, dataDir }) => writeCredentialsFile(credentialsPath(dataDir), { url, apiKey }),
    }).catch(explainStart);
    return { platform, ready: announce({ platform, options, context, say, stop, startedAtMs }) };
  });
}

type Start = {
  platform: Platform;
  options: Options;
  context: CliContext;
  say(text: string): void;
  stop: AbortSignal;
  startedAtMs: number;
};

async function announce({ platform, options, context, say, stop, startedAtMs }: Start): Promise<void> {
  const startMs = performance.now() - startedAtMs;
  const path = credentialsPath(platform.dataDir);
  const credentials = keepCredentials(platform, path, (message) =>
    context.stderr.write(`catnap: ${printable(message)}\n`),
  );
  for (const { problem, remedy } of platform.problems) {
    context.stderr.write(`catnap: ${printable(problem)}\n  ${printable(remedy)}\n`);
  }
  const isFirst = platform.firstApiKey !== undefined;
  if (isFirst) say(`\nYour API key, shown this once and kept in ${path}:\n  ${platform.firstApiKey}\n`);
  let phases: CheckPhase[] | undefined;
  if (credentials !== undefined && (options.selfCheck ?? isFirst)) {
    phases = await check({ platform, credentials, context, say, stop });
  }
  if (stop.aborted) return;
  if (options.json === true) {
    const { url, dataDir, region, workspace } = platform;
    const ready = {
      url,
      dataDir,
      region,
      workspace,
      credentialsFile: path,
      isFirstStart: isFirst,
      startMs: Math.round(startMs),
      selfCheck: phases,
    };
    context.stdout.write(`${JSON.stringify(ready)}\n`);
    return;
  }
  say(`\nready on ${platform.url} after ${formatDuration(startMs)}\n\n`);
  const { url, workspace, region, dataDir, firstApiKey: apiKey } = platform;
  const lines = pasteLines({ url, workspace, region, dataDir, apiKey, projectDir: context.projectDir });
  say(`${lines.join("\n")}\n\n`);
}

/** Brings the file's address up to date. */
function keepCredentials(platform: Platform, path: string, warn: (message: string) => void): Credentials | undefined {
  const { url, workspace, region, firstApiKey } = platform;
  const known = readCredentialsFile(path, warn);
  const apiKey = firstApiKey ?? known?.apiKey;
  if (apiKey === undefined) {
    warn(`${path} is gone, and with it the API key; use another key of the workspace in CATNAP_API_KEY`);
    return undefined;
  }
  const credentials = { url, apiKey, workspace, region };
  if (known?.apiKey !== apiKey || known.url !== url || known.region !== region || known.workspace !== workspace) {
    writeCredentialsFile(path, credentials);
  }
  return credentials;
}

async function check(start: {
  platform: Platform;
  credentials: Credentials;
  context: CliContext;
  say(text: string): void;
  stop: AbortSignal;
}): Promise<CheckPhase[] | undefined> {
  const { platform, credentials, context, say, stop } = start;
  using connection = new Connection(credentials, "catnap-self-check");
  // What a caller meets in everyday use are ready-made instances; the first of them are being made at this moment.
  await Promise.race([platform.warmed(), delay(warmWaitMs, undefined, { signal: stop, ref: false })]).catch(
    () => undefined,
  );
  say("\nself-check: one sandbox is made, used, put to sleep, woken and deleted\n");
  try {
    const phases = await selfCheck({
      connection,
      idleTimeoutMs: platform.idleTimeoutMs,
      signal: stop,
      onPhase: (description) => say(`  ${description}\n`),
    });
    const columns = [{ title: "" }, { title: "", align: "right" }, { title: "" }] as const;
    say(
      `\n${formatTable(
        columns,
        phases.map(({ name, durationMs, detail }) => [`  ${name}`, formatDuration(durationMs), detail]),
      )}`,
    );
    return phases;
  } catch (error) {
    if (stop.aborted) return undefined;
    const { message, remedy = "The log above and `catnap doctor` may tell why." } =
      error instanceof CliFailure ? error : { message: (error as Error).message };
    context.stderr.write(
      `\ncatnap: the self-check failed: ${printable(message)}\n  ${printable(remedy)}\n  The platform goes on.\n`,
    );
    return undefined;
  }
}

function readLogLevel(text: string | undefined, isTerminal: boolean): LogLevel {
  if (text === undefined || text === "") return isTerminal ? "warn" : "info";
  const level = logLevels.find((known) => known === text);
  if (level === undefined) throw usageFailure(`The log level must be one of ${logLevels.join(", ")}, not ${text}.`);
  return level;
}

function explainStart(error: unknown): never {
  const { message, cause } = error as Error;
  // A setting that is refused, or what another program has, is no matter of the machine; its sentence says what to do.
  const isChoice = error instanceof AppError && (error.code === "invalid_request" || error.code === "conflict");
  const isSetting = isChoice || (error instanceof AppError && error.details?.setting !== undefined);
  const why = cause instanceof Error && !isChoice ? ` (${cause.message})` : "";
  throw new CliFailure("failure", `The platform did not start: ${message}${why}`, {
    cause: error,
    remedy: isSetting
      ? "`catnap up --help` and docs/operating.md say what can be set."
      : "`catnap doctor` says what is missing on this machine.",
  });
}
