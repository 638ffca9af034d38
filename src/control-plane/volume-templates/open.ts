// Puts volume templates together: their service, the object store behind it, and what fetches and cleans up.
import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import type { FastifyInstance } from "fastify";
import type { Logger } from "../../core/log.ts";
import { startLoop } from "../../core/loop.ts";
import type { SealKey } from "../../core/seal.ts";
import type { Database } from "../db/database.ts";
import { type LocalDirectory, openLocalDirectory } from "../object-store/local-directory.ts";
import { S3Bucket } from "../object-store/s3-bucket.ts";
import { Collector, incomingFolder, objectFolder } from "../uploads/collect.ts";
import { type Membership, Receiver } from "../uploads/receive.ts";
import { mountUploads } from "../uploads/routes.ts";
import { createUploadUrls } from "../uploads/upload-url.ts";
import type { VolumeTemplateConfig } from "./config.ts";
import type { VersionRow } from "./record.ts";
import { mountVolumeTemplates } from "./routes.ts";
import { createVolumeTemplateService, type SignUpload, type VolumeTemplateService } from "./service.ts";
import { createVolumeTemplateStore } from "./store.ts";
import { createSweep } from "./sweep.ts";

export type VolumeTemplatesOptions = {
  config: { volumeTemplates: VolumeTemplateConfig; region: string; origin: string };
  database: Database;
  sealKey: SealKey;
  log: Logger;
  opened: AsyncDisposableStack;
  authentication: Membership;
};

export type VolumeTemplates = {
  /** Below `/v0`, guarded. */
  mount(app: FastifyInstance): void;
  /** Open to whoever has a signed URL. */
  mountUploads(app: FastifyInstance): Promise<void>;
  /** Templates of a workspace. */
  count(workspaceId: string): Promise<number>;
};

type Work = (signal: AbortSignal) => Promise<void>;

/** How often somebody who looks may make the platform look, too. */
const pokeIntervalMs = 1_000;

export async function openVolumeTemplates(options: VolumeTemplatesOptions): Promise<VolumeTemplates> {
  const { database, sealKey, log, opened, authentication } = options;
  const { volumeTemplates: config, region, origin } = options.config;
  mkdirSync(config.directory, { recursive: true, mode: 0o700 });
  const objects = openLocalDirectory(config.directory);
  const bucket = config.bucket && new S3Bucket(config.bucket, await readPrefix(database));
  const store = createVolumeTemplateStore(database);
  const urls = createUploadUrls({ sealKey, origin });
  const service = createVolumeTemplateService({
    config,
    store,
    region,
    bucket: (bucket ?? objects).bucket,
    signUpload: bucket === undefined ? signLocal(urls, config) : signForBucket(bucket),
    onRemoved: (versions) => void discard(versions),
    onAwaited: () => pokeCollector(),
  });
  const discard = createDiscard({ objects, bucket, log });
  const receiver = new Receiver({ config, templates: service, objects, urls, authentication });
  const sweepDirectory = createDirectorySweep({ objects, receiver, service, log });
  const collector = bucket && new Collector({ config, templates: service, bucket, log });
  const sweepBucket = bucket && collector && createBucketSweep({ bucket, collector, service, log });
  const sweep: Work = async (signal) => {
    await sweepDirectory(signal);
    await sweepBucket?.(signal);
  };
  const start = (name: string, intervalMs: number, work: Work) =>
    opened.use(startLoop({ name, intervalMs, log, work }));
  const sweeps = start("volume template archives", config.sweepIntervalMs, sweep);
  // What a crash has left.
  sweeps.poke();
  const collections =
    collector && start("volume template uploads", config.collectIntervalMs, (signal) => collector.collect(signal));
  const pokeCollector = atMostEvery(pokeIntervalMs, () => collections?.poke());
  return {
    mount: (app) => mountVolumeTemplates(app, service),
    mountUploads: (app) => mountUploads(app, receiver),
    count: (workspaceId) => store.count(workspaceId),
  };
}

/** Installations may share a bucket, and each removes what none of its own versions needs: they must not share a prefix. */
async function readPrefix({ kysely }: Database): Promise<string> {
  const { created_at } = await kysely.selectFrom("installation").select("created_at").executeTakeFirstOrThrow();
  return `catnap-${createHash("sha256").update(created_at).digest("hex").slice(0, 16)}/`;
}

function signLocal(urls: ReturnType<typeof createUploadUrls>, { archiveMaxBytes }: VolumeTemplateConfig): SignUpload {
  return (target, expiresAtMs, principalId) =>
    urls.create({ ...target, expiresAtMs, maxBytes: archiveMaxBytes, principalId });
}

function signForBucket(bucket: S3Bucket): SignUpload {
  return ({ versionId }, expiresAtMs) => {
    const seconds = Math.max(1, Math.floor((expiresAtMs - Date.now()) / 1_000));
    return bucket.signUpload(`${incomingFolder}${versionId}`, seconds);
  };
}

/** Removes archives of versions that are gone; the sweep finds those that could not be removed. */
function createDiscard({
  objects,
  bucket,
  log,
}: {
  objects: LocalDirectory;
  bucket: S3Bucket | undefined;
  log: Logger;
}): (versions: readonly VersionRow[]) => Promise<void> {
  return async (versions) => {
    for (const { object_key: key, bucket: name } of versions) {
      if (key === null) continue;
      const removing = name === bucket?.bucket ? bucket.remove(`${objectFolder}${key}`) : objects.remove(key);
      await removing.catch((error: unknown) => log.warn({ object: key, err: error }, "an archive is removed later"));
    }
  };
}

type SweepParts = { service: VolumeTemplateService; log: Logger };

function createDirectorySweep({
  objects,
  receiver,
  service,
  log,
}: SweepParts & { objects: LocalDirectory; receiver: Receiver }): Work {
  return createSweep({
    listKeys: objects.listKeys,
    remove: objects.remove,
    listOwned: service.listOwned,
    isUnderWay: (key) => receiver.isUnderWay(key),
    log,
  });
}

/** Also removes what was sent to URLs of versions that are awaited no more. */
function createBucketSweep({
  bucket,
  collector,
  service,
  log,
}: SweepParts & { bucket: S3Bucket; collector: Collector }): Work {
  const inFolder = (folder: string) => ({
    listKeys: () => bucket.listKeys(folder),
    remove: (key: string) => bucket.remove(`${folder}${key}`),
    log,
  });
  const sweepObjects = createSweep({
    ...inFolder(objectFolder),
    listOwned: service.listOwned,
    isUnderWay: (key) => collector.isUnderWay(key),
  });
  const sweepIncoming = createSweep({
    ...inFolder(incomingFolder),
    listOwned: service.listAwaitedIds,
    isUnderWay: () => false,
  });
  return async (signal) => {
    await sweepObjects(signal);
    await sweepIncoming(signal);
  };
}

function atMostEvery(intervalMs: number, act: () => void): () => void {
  let last = Number.NEGATIVE_INFINITY;
  return () => {
    if (performance.now() - last < intervalMs) return;
    last = performance.now();
    act();
  };
}
