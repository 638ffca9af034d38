// Opens what a command needs of a platform: its control plane and the sandboxes behind it, with one credential.
import type { Command } from "commander";
import type { Sandbox } from "../contract/sandbox.ts";
import type { CliContext } from "./context.ts";
import { type Credentials, findCredentials } from "./credentials.ts";
import { CliFailure, printable } from "./failure.ts";
import { HttpClient } from "./http/http-client.ts";
import { PlatformClient } from "./http/platform-client.ts";
import { readVersion } from "./version.ts";

export type ConnectionOptions = {
  url?: string;
  apiKeyFile?: string;
  workspace?: string;
  dataDir?: string;
  json?: boolean;
};

/** The options of every command that talks to a platform. A key is never an option: process lists show options to everyone. */
export function addConnectionOptions(command: Command): Command {
  return command
    .option("--json", "print JSON instead of text")
    .option("--url <url>", "the platform's address (or CATNAP_URL)")
    .option("--api-key-file <file>", "read the API key from this file (or CATNAP_API_KEY)")
    .option("--workspace <name>", "act in this workspace (or CATNAP_WORKSPACE)")
    .option("--data-dir <dir>", "where a local platform keeps its credentials file (or CATNAP_DATA_DIR)");
}

export class Connection implements Disposable {
  readonly credentials: Credentials;
  readonly platform: PlatformClient;
  readonly #userAgent: string;
  readonly #clients: HttpClient[] = [];

  constructor(credentials: Credentials, userAgent: string) {
    this.credentials = credentials;
    this.#userAgent = userAgent;
    this.platform = new PlatformClient(this.#client(`${credentials.url}/v0`));
  }

  /** A client whose paths are those of the sandbox's own API. */
  sandbox(sandbox: Sandbox): HttpClient {
    return this.#client(sandboxUrl(this.credentials.url, sandbox));
  }

  async openSandbox(name: string, signal?: AbortSignal): Promise<HttpClient> {
    const sandbox = await this.platform.getSandbox(name, signal);
    if (sandbox.status !== "DEPLOYED") {
      throw new CliFailure("failure", `Sandbox ${name} is ${sandbox.status}.`, {
        remedy: `\`catnap sandbox get ${name}\` says more.`,
      });
    }
    return this.sandbox(sandbox);
  }

  [Symbol.dispose](): void {
    for (const client of this.#clients) client[Symbol.dispose]();
  }

  #client(baseUrl: string): HttpClient {
    const { apiKey, workspace } = this.credentials;
    const client = new HttpClient({ baseUrl, apiKey, workspace, userAgent: this.#userAgent });
    this.#clients.push(client);
    return client;
  }
}

export function connect(context: CliContext, flags: ConnectionOptions): Connection {
  const credentials = findCredentials({
    env: context.env,
    homeDir: context.homeDir,
    flags,
    warn: (message) => context.stderr.write(`catnap: ${printable(message)}\n`),
  });
  return new Connection(credentials, `catnap-cli/${readVersion(context.projectDir)}`);
}

/**
 * Where a sandbox answers. A platform reached through a tunnel names addresses of its own machine: one in path form is
 * asked for at the address the platform itself was reached by.
 */
export function sandboxUrl(platformUrl: string, sandbox: Sandbox): string {
  const { url, name, workspace } = sandbox.metadata;
  if (url === undefined) return `${platformUrl}/run/${workspace}/sandboxes/${name}`;
  const { hostname, pathname } = new URL(url);
  const isLoopback = hostname === "localhost" || hostname === "[::1]" || hostname.startsWith("127.");
  return isLoopback && pathname !== "/" ? `${platformUrl}${pathname}` : url;
}
