// The whole platform as whoever starts it sees it: what `catnap up` needs of the server parts that are put together in `src/dev/`.
import type { Logger } from "../core/log.ts";

export type Platform = AsyncDisposable & {
  /** Origin without a trailing slash, e.g. `http://127.0.0.1:4000`. */
  url: string;
  dataDir: string;
  region: string;
  workspace: string;
  idleTimeoutMs: number;
  /** Present on the first start only; it is nowhere else in the clear. */
  firstApiKey: string | undefined;
  /** What the start found missing although it could go on, each with the way out. */
  problems: readonly { problem: string; remedy: string }[];
  /** Resolves when ready-made instances are waiting. */
  warmed(): Promise<void>;
};

export type PlatformOptions = {
  env: Readonly<Record<string, string | undefined>>;
  /** Settings from flags, by the name of the environment variable they mirror; they win over `env`. */
  overrides?: Partial<Record<string, string>>;
  log: Logger;
  /** Told the first API key before it begins to exist, so that a crash cannot leave a key that nobody was told. */
  saveFirstKey?: (apiKey: string, place: { url: string; dataDir: string }) => void;
  /** Told what the start does next, in words for a person. */
  onStep?: (what: string) => void;
};

export type StartPlatform = (options: PlatformOptions) => Promise<Platform>;
