// Puts the noun together.
import type { FastifyInstance } from "fastify";
import type { Logger } from "../../core/log.ts";
import type { Database } from "../db/database.ts";
import { openFeaturesFile } from "./file.ts";
import { mountFeatures, mountOperatorFeatures } from "./routes.ts";
import { createFeatureService } from "./service.ts";
import { createFeatureStore } from "./store.ts";

export type FeatureParts = {
  config: { featuresFile: string | undefined };
  database: Database;
  log: Logger;
  opened: AsyncDisposableStack;
  findWorkspaceId: (workspace: string) => Promise<string | undefined>;
};

export function openFeatures({ config, database, log, opened, findWorkspaceId }: FeatureParts) {
  const file = opened.use(openFeaturesFile(config.featuresFile, log));
  const service = createFeatureService({ store: createFeatureStore(database), file, findWorkspaceId });
  return {
    mount: (app: FastifyInstance) => mountFeatures(app, service),
    operatorMount: (operator: FastifyInstance) => mountOperatorFeatures(operator, service),
  };
}
