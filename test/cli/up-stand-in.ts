// A platform that `up` starts in tests: it serves nothing, and remembers how it was started and stopped.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import type { Platform, PlatformOptions, StartPlatform } from "../../src/contract/platform.ts";
import { eventually } from "../eventually.ts";
import { type CliOptions, cli } from "./run-cli.ts";

const root = mkdtempSync(join(tmpdir(), "cli-up-"));
after(() => rmSync(root, { recursive: true }));

export type StandIn = { start: StartPlatform; options: PlatformOptions[]; disposed: number; dataDir: string };

/** Starts like a platform: a key at the first start, none later. */
export function standIn(url: string, more: Partial<Platform> = {}): StandIn {
  const dataDir = mkdtempSync(join(root, "data-"));
  const started: StandIn = {
    options: [],
    disposed: 0,
    dataDir,
    async start(options) {
      started.options.push(options);
      const firstApiKey = started.options.length === 1 ? "first-key" : undefined;
      if (firstApiKey !== undefined) options.saveFirstKey?.(firstApiKey, { url, dataDir });
      return {
        url,
        dataDir,
        region: "local",
        workspace: "main",
        idleTimeoutMs: 1_000,
        firstApiKey,
        problems: [],
        warmed: async () => undefined,
        async [Symbol.asyncDispose]() {
          started.disposed += 1;
        },
        ...more,
      };
    },
  };
  return started;
}

export const untilReady: NonNullable<CliOptions["during"]> = async ({ stdout, signal }) => {
  await eventually(() => assert.match(stdout(), /ready on|"url"/));
  signal("SIGINT");
};

export function up(platform: StandIn, args: string[] = [], options: CliOptions = {}) {
  return cli(["up", ...args], { loadPlatform: async () => platform.start, during: untilReady, ...options });
}
