// Which platform to talk to and with which key: from flags and the environment, else from the credentials file of a local platform.
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { writeFileAtomic } from "../core/atomic-file.ts";
import { CliFailure } from "./failure.ts";

export type Credentials = {
  /** Origin of the platform, e.g. `http://127.0.0.1:4000`. */
  url: string;
  apiKey: string;
  workspace?: string;
  region?: string;
};

export type CredentialsQuery = {
  env: Readonly<Record<string, string | undefined>>;
  homeDir: string;
  flags: { url?: string; apiKeyFile?: string; workspace?: string; dataDir?: string };
  warn(message: string): void;
};

export const defaultDataDir = "/var/lib/catnap";

export function credentialsPath(dataDir: string): string {
  return join(dataDir, "credentials.json");
}

/** A key from a file is only sent to the address that stands beside it, so that no other server gets to see it. */
export function findCredentials(query: CredentialsQuery): Credentials {
  const { env, flags } = query;
  const givenUrl = normalizeUrl(flags.url ?? nonEmpty(env.CATNAP_URL));
  const givenKey = flags.apiKeyFile === undefined ? nonEmpty(env.CATNAP_API_KEY) : readKeyFile(flags.apiKeyFile);
  const workspace = flags.workspace ?? nonEmpty(env.CATNAP_WORKSPACE);
  const needsFile = givenUrl === undefined || givenKey === undefined;
  const { found, unreadable } = needsFile ? readCandidates(query) : { found: undefined, unreadable: undefined };
  const url = givenUrl ?? found?.url;
  const apiKey = givenKey ?? (found !== undefined && found.url === url ? found.apiKey : undefined);
  if (url !== undefined && apiKey !== undefined) {
    return {
      url,
      apiKey,
      workspace: workspace ?? (givenKey === undefined ? found?.workspace : undefined),
      region: found?.region,
    };
  }
  if (url !== undefined) {
    throw new CliFailure("unauthorized", `There is no API key for ${url}.`, { remedy: "Set CATNAP_API_KEY." });
  }
  if (unreadable !== undefined) {
    throw new CliFailure("unauthorized", `${unreadable} cannot be read by this user.`, {
      remedy: "Run as the user who started the platform, or set CATNAP_URL and CATNAP_API_KEY.",
    });
  }
  throw new CliFailure("unreachable", "No platform has been started on this machine yet.", {
    remedy: "Start one with `npm start`, or set CATNAP_URL and CATNAP_API_KEY to use one elsewhere.",
  });
}

function readCandidates({ env, homeDir, flags, warn }: CredentialsQuery): { found?: Credentials; unreadable?: string } {
  const dataDir = flags.dataDir ?? nonEmpty(env.CATNAP_DATA_DIR) ?? defaultDataDir;
  let unreadable: string | undefined;
  for (const path of [credentialsPath(dataDir), join(homeDir, ".catnap", "credentials.json")]) {
    try {
      const found = readCredentialsFile(path, warn);
      if (found !== undefined) return { found };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error;
      unreadable ??= path;
    }
  }
  return { unreadable };
}

/** Undefined when there is no such file. */
export function readCredentialsFile(path: string, warn: (message: string) => void): Credentials | undefined {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
    if ((statSync(path).mode & 0o077) !== 0) warn(`${path} can be read by others; mend it with: chmod 600 ${path}`);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw error;
  }
  const { url, apiKey, workspace, region } = parseObject(text, path);
  if (typeof url !== "string" || typeof apiKey !== "string") {
    throw new CliFailure("failure", `${path} has no "url" and "apiKey".`);
  }
  const optional = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
  return { url: normalizeUrl(url) ?? url, apiKey, workspace: optional(workspace), region: optional(region) };
}

export function writeCredentialsFile(path: string, credentials: Credentials): void {
  writeFileAtomic(path, `${JSON.stringify(credentials, undefined, 2)}\n`, { mode: 0o600, durable: true });
}

function parseObject(text: string, path: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // Said below; the parser's message would quote the file, and with it the key.
  }
  throw new CliFailure("failure", `${path} is not a JSON object.`);
}

function readKeyFile(path: string): string {
  try {
    const key = readFileSync(path, "utf8").trim();
    if (key !== "") return key;
  } catch (error) {
    throw new CliFailure("usage", `The key file ${path} cannot be read.`, { cause: error });
  }
  throw new CliFailure("usage", `The key file ${path} is empty.`);
}

/** Accepts the origin and also the control plane's base that ends in `/v0`. */
function normalizeUrl(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  if (!/^https?:\/\//.test(text) || !URL.canParse(text)) {
    throw new CliFailure("usage", `The platform's URL must begin with http:// or https://, not ${text}.`);
  }
  return text.replace(/\/+$/, "").replace(/\/v0$/, "");
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === undefined || text === "" ? undefined : text;
}
