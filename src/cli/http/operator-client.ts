// Talks to the platform on this machine as its operator, over the operator socket: being able to open it is the credential.
import { closeSync, constants, openSync } from "node:fs";
import type { Command } from "commander";
import type { Endpoint } from "../../contract/endpoint.ts";
import type { Input, Output } from "../../contract/implement.ts";
import { operatorBasePath, operatorDir, operatorSocketName } from "../../contract/operator/socket.ts";
import type { CliContext } from "../context.ts";
import { defaultDataDir } from "../credentials.ts";
import { CliFailure } from "../failure.ts";
import { readVersion } from "../version.ts";
import { HttpClient } from "./http-client.ts";

export type OperatorOptions = { dataDir?: string; json?: boolean };

/** The options of every command for the operator of the machine. */
export function addOperatorOptions(command: Command): Command {
  return command
    .option("--json", "print JSON instead of text")
    .option("--data-dir <dir>", "where the platform keeps everything (or CATNAP_DATA_DIR)");
}

export type CallOptions = { signal?: AbortSignal; timeoutMs?: number };

export class OperatorClient implements Disposable {
  readonly #dataDir: string;
  readonly #directory: number;
  readonly #http: HttpClient;

  constructor(dataDir: string, userAgent: string) {
    this.#dataDir = dataDir;
    this.#directory = openDirectory(dataDir);
    this.#http = new HttpClient({
      baseUrl: `http://operator${operatorBasePath}`,
      // Through the open directory, because addresses of sockets have at most 107 bytes.
      socketPath: `/proc/self/fd/${this.#directory}/${operatorSocketName}`,
      userAgent,
    });
  }

  /** One declared operation. Never repeated by itself: the socket is on this machine, so a failure is the answer. */
  async call<Declared extends Endpoint>(
    declared: Declared,
    input: Partial<Input<Declared>> = {},
    options: CallOptions = {},
  ): Promise<Output<Declared>> {
    const { params, query, body } = input as Record<"params" | "query" | "body", Record<string, unknown> | undefined>;
    const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    try {
      return await this.#http.json<Output<Declared>>({
        ...options,
        method: declared.method,
        path: `${fillPath(declared.path, params)}${formatQuery(query)}`,
        ...(payload && { headers: { "content-type": "application/json" }, body: () => payload }),
        repeatable: false,
      });
    } catch (error) {
      const cause = error instanceof CliFailure ? (error.cause as NodeJS.ErrnoException | undefined) : undefined;
      if (cause?.code === "ENOENT" || cause?.code === "ECONNREFUSED") throw notRunning(this.#dataDir, error);
      if (cause?.code === "EACCES" || cause?.code === "EPERM") throw notAllowed(this.#dataDir, error);
      throw error;
    }
  }

  [Symbol.dispose](): void {
    this.#http[Symbol.dispose]();
    closeSync(this.#directory);
  }
}

export function connectOperator(context: CliContext, { dataDir }: OperatorOptions): OperatorClient {
  const dir = dataDir ?? (context.env.CATNAP_DATA_DIR || defaultDataDir);
  return new OperatorClient(dir, `catnap-cli/${readVersion(context.projectDir)}`);
}

function openDirectory(dataDir: string): number {
  try {
    return openSync(operatorDir(dataDir), constants.O_RDONLY | constants.O_DIRECTORY);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") throw notRunning(dataDir, error);
    if (code === "EACCES" || code === "EPERM") throw notAllowed(dataDir, error);
    throw error;
  }
}

function notRunning(dataDir: string, cause: unknown): CliFailure {
  return new CliFailure("unreachable", `No platform runs on ${dataDir}.`, {
    cause,
    remedy: "Start it with `npm start`, or name its data directory with --data-dir or CATNAP_DATA_DIR.",
  });
}

function notAllowed(dataDir: string, cause: unknown): CliFailure {
  return new CliFailure("unauthorized", `Only the user who runs the platform on ${dataDir} may do this.`, {
    cause,
    remedy: "Run the command as that user, for example with sudo.",
  });
}

function fillPath(path: string, params: Record<string, unknown> | undefined): string {
  return path.replaceAll(/:([A-Za-z]+)/g, (_, name: string) => encodeURIComponent(String(params?.[name])));
}

function formatQuery(query: Record<string, unknown> | undefined): string {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined);
  if (given.length === 0) return "";
  return `?${new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)]))}`;
}
