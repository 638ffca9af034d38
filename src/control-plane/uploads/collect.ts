// Fetches what clients have sent to the bucket: moved to where no URL leads, then checked, then READY.
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import type { Logger } from "../../core/log.ts";
import type { ObjectHead, S3Bucket } from "../object-store/s3-bucket.ts";
import type { VolumeTemplateConfig } from "../volume-templates/config.ts";
import type { VersionRecord } from "../volume-templates/record.ts";
import type { VolumeTemplateService } from "../volume-templates/service.ts";
import { TarCheck } from "../volume-templates/tar/check.ts";
import { checkInTurns } from "../volume-templates/tar/paced.ts";
import { TarRefusal } from "../volume-templates/tar/refusal.ts";

/** Where URLs lead, by version; whoever has one can still put another object there after the first was fetched. */
export const incomingFolder = "incoming/";
/** Where archives are kept; nobody but the platform writes here. */
export const objectFolder = "objects/";

const chunk = 200;
const atOnceMax = 4;
/** An upload that began in time may take this long after its URL has expired. */
const graceMs = 86_400_000;

export type CollectorOptions = {
  config: VolumeTemplateConfig;
  templates: VolumeTemplateService;
  bucket: S3Bucket;
  log: Logger;
};

export class Collector {
  readonly #options: CollectorOptions;
  readonly #underWay = new Set<string>();

  constructor(options: CollectorOptions) {
    this.#options = options;
  }

  /** Looks at every awaited version once. Safe to repeat and to abandon half-way. */
  async collect(signal: AbortSignal): Promise<void> {
    const { templates, bucket, log } = this.#options;
    const endedAfter = new Date(Date.now() - graceMs).toISOString();
    for (let after = ""; !signal.aborted; ) {
      const versions = await templates.listAwaited({ bucket: bucket.bucket, endedAfter, afterId: after, limit: chunk });
      const last = versions.at(-1);
      if (last === undefined) return;
      after = last.versionId;
      const waiting = versions.values();
      const lane = async (): Promise<void> => {
        for (const version of waiting) {
          if (signal.aborted) return;
          await this.#fetch(version, signal).catch((error: unknown) => {
            if (!signal.aborted)
              log.error({ version: version.versionId, err: error }, "an upload could not be fetched");
          });
        }
      };
      await Promise.all(Array.from({ length: atOnceMax }, lane));
    }
  }

  /** Whether an object is about to belong to a version. */
  isUnderWay(key: string): boolean {
    return this.#underWay.has(key);
  }

  async #fetch(version: VersionRecord, signal: AbortSignal): Promise<void> {
    const { bucket, templates } = this.#options;
    const incoming = `${incomingFolder}${version.versionId}`;
    const head = await bucket.head(incoming, signal);
    if (head === undefined) return;
    const key = `${version.versionId}.${randomToken(8)}`;
    this.#underWay.add(key);
    try {
      await this.#requireSize(version, head);
      if (!(await bucket.copy(incoming, `${objectFolder}${key}`, head.etag, signal))) return;
      const sizeBytes = await this.#check(key, signal);
      await templates.accept(version, { key, sizeBytes });
    } catch (error) {
      // The copy is swept away. What is only the store's failure is tried again.
      if (!(error instanceof TarRefusal || (error instanceof AppError && error.status < 500))) throw error;
      await templates.fail(version, error.message);
    } finally {
      this.#underWay.delete(key);
    }
    await bucket.remove(incoming, signal);
  }

  async #requireSize({ workspaceId }: VersionRecord, { sizeBytes }: ObjectHead): Promise<void> {
    const { config, templates } = this.#options;
    if (sizeBytes > config.archiveMaxBytes) {
      throw new TarRefusal(`the archive has more than ${config.archiveMaxBytes} bytes`);
    }
    if (sizeBytes > (await templates.freeBytes(workspaceId))) {
      throw new TarRefusal("the archives of the workspace's volume templates would exceed its quota");
    }
  }

  /** The size of the archive. */
  async #check(key: string, signal: AbortSignal): Promise<number> {
    const { config, bucket } = this.#options;
    const path = `${objectFolder}${key}`;
    const head = await bucket.head(path, signal);
    if (head === undefined) throw new Error(`the object store has lost ${path}`);
    const check = new TarCheck(config);
    let readBytes = 0;
    for await (const piece of bucket.read(path, head.etag, signal)) {
      readBytes += piece.length;
      await checkInTurns(check, piece);
    }
    if (readBytes !== head.sizeBytes) throw new Error(`the object store ended ${path} early`);
    check.end();
    return readBytes;
  }
}
