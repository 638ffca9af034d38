// Takes an archive from a client into the local directory: streamed, checked as it passes, whole or not at all.
import type { IncomingMessage } from "node:http";
import { isDiskFull } from "../../core/disk-full.ts";
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import type { Authentication } from "../auth/service.ts";
import type { LocalDirectory } from "../object-store/local-directory.ts";
import type { VolumeTemplateConfig } from "../volume-templates/config.ts";
import type { VersionRecord } from "../volume-templates/record.ts";
import { overQuota, type VolumeTemplateService } from "../volume-templates/service.ts";
import { TarCheck } from "../volume-templates/tar/check.ts";
import { checkInTurns } from "../volume-templates/tar/paced.ts";
import { TarRefusal } from "../volume-templates/tar/refusal.ts";
import { readBody, type UploadBody } from "./body.ts";
import type { UploadGrant, UploadQuery, UploadUrls } from "./upload-url.ts";

export type ReceiverOptions = {
  config: VolumeTemplateConfig;
  templates: VolumeTemplateService;
  objects: LocalDirectory;
  urls: UploadUrls;
  authentication: Membership;
};

export type Membership = Pick<Authentication, "belongsTo">;

type Upload = { key: string; version: VersionRecord; body: UploadBody; receivedBytes: number };

/** The disk is asked again after so much. */
const diskCheckBytes = 16 * 1024 * 1024;

export class Receiver {
  readonly #options: ReceiverOptions;
  readonly #uploads = new Set<Upload>();

  constructor(options: ReceiverOptions) {
    this.#options = options;
  }

  /** Resolves to the version when it is READY. */
  async receive(versionId: string, query: UploadQuery, request: IncomingMessage): Promise<VersionRecord> {
    const { templates } = this.#options;
    const { version, grant } = await this.#admit(versionId, query);
    const announcedBytes = Number(request.headers["content-length"] ?? 0);
    if (announcedBytes > grant.maxBytes) throw tooLarge(grant.maxBytes);
    const freeBytes = await templates.freeBytes(version.workspaceId);
    if (announcedBytes > freeBytes) throw overQuota();
    await this.#requireDisk(announcedBytes);
    const upload = this.#begin(version, request);
    try {
      await this.#take(upload, grant, freeBytes);
      await this.#keep(upload);
      return version;
    } catch (error) {
      if (!(error instanceof TarRefusal)) throw error;
      await templates.fail(version, error.message);
      throw new AppError("unprocessable", `The archive was refused: ${error.message}.`);
    } finally {
      this.#uploads.delete(upload);
    }
  }

  /** Whether an object belongs to an upload that has not come to its end. */
  isUnderWay(key: string): boolean {
    return [...this.#uploads].some((upload) => upload.key === key);
  }

  /** Throws unless the request may upload, and to what. */
  async #admit(versionId: string, query: UploadQuery): Promise<{ version: VersionRecord; grant: UploadGrant }> {
    const { templates, urls, authentication } = this.#options;
    const version = await templates.findVersion(versionId);
    const grant = version && urls.verify(version, query, Date.now());
    if (!version || !grant || !(await authentication.belongsTo(version.workspaceId, grant.principalId))) {
      throw new AppError("forbidden", "The upload URL is not valid, or has expired; ask for another.");
    }
    if (version.status === "READY") throw new AppError("conflict", "The version has its archive already.");
    if (version.status === "FAILED") {
      throw new AppError("conflict", "The version's archive was refused; ask for another URL.");
    }
    return { version, grant };
  }

  /** A newer upload to the same version ends the older one; an older one that is complete already may still win. */
  #begin(version: VersionRecord, request: IncomingMessage): Upload {
    const { uploadsMax, stallMs, uploadMaxMs: totalMs } = this.#options.config;
    // What is refused ends nothing. Those that it would end still count: they hold their part of the disk until they are gone.
    if (this.#of(version).length >= uploadsMax) {
      throw new AppError("rate_limited", `The workspace has ${uploadsMax} uploads under way, which is the limit.`);
    }
    for (const older of this.#uploads) {
      if (older.version.versionId !== version.versionId) continue;
      older.body.interrupt(new AppError("conflict", "A newer upload to the same version has begun."));
    }
    const key = `${version.versionId}.${randomToken(8)}`;
    const upload = { key, version, body: readBody(request, { stallMs, totalMs }), receivedBytes: 0 };
    this.#uploads.add(upload);
    return upload;
  }

  /** Writes the body down; throws when it is too much, not a proper archive, or ends early. */
  async #take(upload: Upload, { maxBytes }: UploadGrant, freeBytes: number): Promise<void> {
    const { config, objects } = this.#options;
    const writer = await objects.create(upload.key).catch(explainDisk);
    const check = new TarCheck(config);
    let diskAskedAt = 0;
    try {
      for await (const chunk of upload.body) {
        upload.receivedBytes += chunk.length;
        if (upload.receivedBytes > maxBytes) throw tooLarge(maxBytes);
        const underWay = this.#of(upload.version).reduce((sum, { receivedBytes }) => sum + receivedBytes, 0);
        if (underWay > freeBytes) throw overQuota();
        if (upload.receivedBytes - diskAskedAt > diskCheckBytes) {
          diskAskedAt = upload.receivedBytes;
          await this.#requireDisk(0);
        }
        await checkInTurns(check, chunk);
        await writer.write(chunk);
      }
      check.end();
      await writer.commit();
    } catch (error) {
      await writer.discard();
      explainDisk(error);
    }
  }

  async #keep({ version, key, receivedBytes }: Upload): Promise<void> {
    const { templates, objects } = this.#options;
    try {
      await templates.accept(version, { key, sizeBytes: receivedBytes });
    } catch (error) {
      await objects.remove(key);
      throw error;
    }
  }

  /** Uploads into the same workspace. */
  #of({ workspaceId }: VersionRecord): Upload[] {
    return [...this.#uploads].filter(({ version }) => version.workspaceId === workspaceId);
  }

  async #requireDisk(neededBytes: number): Promise<void> {
    const { config, objects } = this.#options;
    if ((await objects.freeBytes()) - neededBytes >= config.diskReserveBytes) return;
    throw new AppError("unavailable", "The platform has too little disk space left for this upload.");
  }
}

function tooLarge(maxBytes: number): AppError {
  return new AppError("too_large", `The archive must be at most ${maxBytes} bytes.`);
}

function explainDisk(error: unknown): never {
  if (!isDiskFull(error)) throw error;
  throw new AppError("unavailable", "The platform's disk is full.", { cause: error });
}
