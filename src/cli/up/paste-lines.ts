// What a person pastes to use the platform: a curl command, the command line, and the environment of the official TypeScript client.
import { join } from "node:path";
import { type Credentials, defaultDataDir } from "../credentials.ts";
import { quoteArguments } from "../process/quote.ts";

/** `apiKey` undefined: the lines fetch the key from the credentials file when they are run. */
export type PasteSettings = {
  url: string;
  workspace: string;
  region: string;
  apiKey: string | undefined;
  dataDir: string;
  projectDir: string;
};

export function pasteLines(settings: PasteSettings): [curl: string, commandLine: string, client: string] {
  const { url, apiKey, dataDir, projectDir } = settings;
  const where = dataDir === defaultDataDir ? [] : ["--data-dir", dataDir];
  const program = quoteArguments([join(projectDir, "bin", "catnap")]);
  const withDataDir = (args: readonly string[]): string => quoteArguments([...args, ...where]);
  const key = apiKey ?? `$(${program} ${withDataDir(["credentials", "--key"])})`;
  return [
    `curl -H "Authorization: Bearer ${key}" ${url}/v0/sandboxes`,
    `${program} ${withDataDir(["run"])} -- python3 -c 'print("hello from a sandbox")'`,
    `export ${clientVariables({ ...settings, apiKey: key })
      .map(([name, value]) => `${name}=${/^[\w:/.-]+$/.test(value) ? value : `"${value}"`}`)
      .join(" ")}`,
  ];
}

/** The settings with which the official TypeScript client talks to this platform and to nothing else. */
export function clientVariables(settings: Credentials & { workspace?: string; region?: string }): [string, string][] {
  const { url, apiKey, workspace, region } = settings;
  return [
    ["BL_API_URL", `${url}/v0`],
    ["BL_RUN_URL", `${url}/run`],
    ["BL_API_KEY", apiKey],
    ["BL_WORKSPACE", workspace ?? "main"],
    ...(region === undefined ? [] : ([["BL_REGION", region]] satisfies [string, string][])),
    ["BL_DISABLE_H2", "1"],
    ["DO_NOT_TRACK", "1"],
  ];
}
