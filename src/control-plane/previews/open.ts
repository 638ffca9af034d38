// Puts the parts of previews together, and removes those that have expired.
import type { FastifyInstance } from "fastify";
import type { Logger } from "../../core/log.ts";
import { startLoop } from "../../core/loop.ts";
import type { SealKey } from "../../core/seal.ts";
import type { ControlPlaneConfig } from "../config.ts";
import type { Database } from "../db/database.ts";
import { createPreviewDirectory, type PreviewDirectory } from "./directory.ts";
import { mountPreviews } from "./routes.ts";
import { PreviewService, type PreviewServiceOptions } from "./service.ts";
import { createPreviewStore } from "./store.ts";
import { createTokenStore } from "./token-store.ts";
import { createTokenValues } from "./token-value.ts";

export type PreviewParts = {
  config: ControlPlaneConfig;
  database: Database;
  sealKey: SealKey;
  log: Logger;
  opened: AsyncDisposableStack;
  getSandboxId: PreviewServiceOptions["getSandboxId"];
};

export type Previews = {
  mount: (app: FastifyInstance) => void;
  directory: PreviewDirectory;
  /** Removes what has expired; runs by itself from time to time. */
  purge(): Promise<void>;
};

const purgeRoundsMax = 100;

export function openPreviews({ config, database, sealKey, log, opened, getSandboxId }: PreviewParts): Previews {
  const { address, region, reconcileIntervalMs: intervalMs } = config;
  const store = createPreviewStore(database);
  const tokens = createTokenStore(database);
  const tokenValues = createTokenValues(sealKey, log);
  const service = new PreviewService({ store, tokens, tokenValues, getSandboxId, address, region });
  const loop = opened.use(
    startLoop({
      name: "expired previews",
      intervalMs,
      log,
      async work(signal) {
        for (let round = 0; round < purgeRoundsMax && !signal.aborted; round++) {
          if (!(await store.purge())) return;
        }
      },
    }),
  );
  return {
    mount: (app) => mountPreviews(app, service),
    directory: createPreviewDirectory(database),
    purge: () => loop.run(),
  };
}
