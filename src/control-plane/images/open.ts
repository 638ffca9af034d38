// Puts the noun together. Sandboxes are made through the host it returns, so that their images are known to be their workspace's.
import type { FastifyInstance } from "fastify";
import type { Host } from "../../contract/host.ts";
import type { Logger } from "../../core/log.ts";
import type { Database } from "../db/database.ts";
import { mountImages } from "./routes.ts";
import { ImageService } from "./service.ts";
import { createImageStore } from "./store.ts";
import { watchHost } from "./watched-host.ts";

export type ImageParts = {
  config: { memoryDefaultMb: number };
  host: Host;
  database: Database;
  log: Logger;
  findWorkspaceId: (workspace: string) => Promise<string | undefined>;
};

export function openImages({ config, host, database, log, findWorkspaceId }: ImageParts) {
  const store = createImageStore(database);
  const service = new ImageService({ host, store, log, memoryDefaultMb: config.memoryDefaultMb, findWorkspaceId });
  return {
    host: watchHost(host, (request) => service.noteUse(request)),
    mount: (app: FastifyInstance) => mountImages(app, service),
  };
}
