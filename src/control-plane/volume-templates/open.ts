// Puts volume templates together: their service, the object store behind it, and what cleans up after both.
import { mkdirSync } from "node:fs";
import type { FastifyInstance } from "fastify";
import type { Logger } from "../../core/log.ts";
import { startLoop } from "../../core/loop.ts";
import type { SealKey } from "../../core/seal.ts";
import type { Database } from "../db/database.ts";
import { openLocalDirectory } from "../object-store/local-directory.ts";
import { Receiver } from "../uploads/receive.ts";
import { mountUploads } from "../uploads/routes.ts";
import { createUploadUrls } from "../uploads/upload-url.ts";
import type { VolumeTemplateConfig } from "./config.ts";
import { mountVolumeTemplates } from "./routes.ts";
import { createVolumeTemplateService } from "./service.ts";
import { createVolumeTemplateStore } from "./store.ts";
import { createSweep } from "./sweep.ts";

export type VolumeTemplatesOptions = {
  config: { volumeTemplates: VolumeTemplateConfig; region: string; origin: string };
  database: Database;
  sealKey: SealKey;
  log: Logger;
  opened: AsyncDisposableStack;
};

export type VolumeTemplates = {
  /** Below `/v0`, guarded. */
  mount(app: FastifyInstance): void;
  /** Open to whoever has a signed URL. */
  mountUploads(app: FastifyInstance): Promise<void>;
};

export function openVolumeTemplates(options: VolumeTemplatesOptions): VolumeTemplates {
  const { config, database, sealKey, log, opened } = options;
  const { volumeTemplates, region, origin } = config;
  mkdirSync(volumeTemplates.directory, { recursive: true, mode: 0o700 });
  const objects = openLocalDirectory(volumeTemplates.directory);
  const urls = createUploadUrls({ sealKey, origin });
  const service = createVolumeTemplateService({
    config: volumeTemplates,
    store: createVolumeTemplateStore(database),
    region,
    bucket: objects.bucket,
    signUpload: (target, expiresAtMs) =>
      urls.create({ ...target, expiresAtMs, maxBytes: volumeTemplates.archiveMaxBytes }),
    onRemoved: () => sweeps.poke(),
  });
  const receiver = new Receiver({ config: volumeTemplates, templates: service, objects, urls });
  const sweep = createSweep({
    listKeys: objects.listKeys,
    remove: objects.remove,
    listOwned: service.listOwned,
    isUnderWay: (key) => receiver.isUnderWay(key),
    log,
  });
  const { sweepIntervalMs: intervalMs } = volumeTemplates;
  const sweeps = opened.use(startLoop({ name: "volume template archives", intervalMs, log, work: sweep }));
  return {
    mount: (app) => mountVolumeTemplates(app, service),
    mountUploads: (app) => mountUploads(app, receiver),
  };
}
