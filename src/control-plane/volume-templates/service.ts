// Rules for volume templates: what may be asked, which version an upload is for, and what becomes of an archive that has arrived.
import {
  type UploadQuery,
  uploadUrlHeader,
  type VolumeTemplate,
  type VolumeTemplateInput,
} from "../../contract/volume-template.ts";
import { AppError } from "../../core/errors.ts";
import { generateName, isName } from "../../core/names.ts";
import type { Caller } from "../auth/caller.ts";
import type { UploadTarget } from "../uploads/upload-url.ts";
import type { AwaitedVersion } from "./awaited-version.ts";
import type { VolumeTemplateConfig } from "./config.ts";
import {
  fromVersionRow,
  presentTemplate,
  type TemplateDraft,
  type TemplateRecord,
  type VersionRecord,
  type VersionRow,
} from "./record.ts";
import type { AwaitedQuery, Change, Changed, StoredObject, VolumeTemplateStore } from "./store.ts";

/** What `name:latest` stands for when a volume is made. */
const reservedVersion = "latest";

export type SignUpload = (target: UploadTarget, expiresAtMs: number, principalId: string) => Promise<string> | string;

export type VolumeTemplateServiceOptions = {
  config: VolumeTemplateConfig;
  store: VolumeTemplateStore;
  region: string;
  /** Name of the object store that uploads go to. */
  bucket: string;
  signUpload: SignUpload;
  /** Told which versions are gone for good. */
  onRemoved: (versions: readonly VersionRow[]) => void;
  /** Told when somebody looks whether a version has got its archive. */
  onAwaited: () => void;
};

export type Answer = { template: VolumeTemplate; headers: Record<string, string> };

export type VolumeTemplateService = ReturnType<typeof createVolumeTemplateService>;

export function createVolumeTemplateService(options: VolumeTemplateServiceOptions) {
  const { config, store, region, bucket, signUpload, onRemoved, onAwaited } = options;
  const present = (record: TemplateRecord, { workspace }: Caller): VolumeTemplate =>
    presentTemplate(record, { workspace, region });

  const toChange = (caller: Caller, name: string, input: VolumeTemplateInput, upload: UploadQuery): Change => ({
    workspaceId: caller.workspaceId,
    name,
    draft: readDraft(input),
    by: caller.principalName,
    templatesMax: config.templatesMax,
    awaited: wantsUpload(upload) ? toAwaited(config, bucket, upload) : undefined,
  });

  const answer = async (caller: Caller, { record, awaited }: Changed): Promise<Answer> => {
    const template = present(record, caller);
    if (awaited === undefined) return { template, headers: {} };
    const url = await signUpload(fromVersionRow(awaited), Date.parse(awaited.awaited_until), caller.principalId);
    // A URL that lets whoever has it upload is for the caller alone.
    return { template, headers: { [uploadUrlHeader]: url, "cache-control": "no-store" } };
  };

  return {
    async list(caller: Caller): Promise<VolumeTemplate[]> {
      return (await store.list(caller.workspaceId)).map((record) => present(record, caller));
    },

    async get(caller: Caller, name: string): Promise<VolumeTemplate> {
      const record = isName(name) ? await store.find(caller.workspaceId, name) : undefined;
      if (record === undefined) throw notFound();
      if (record.versions.some(({ status }) => status === "CREATED")) onAwaited();
      return present(record, caller);
    },

    async create(caller: Caller, input: VolumeTemplateInput, upload: UploadQuery): Promise<Answer> {
      const name = input.metadata.name ?? generateName("template");
      return answer(caller, await store.create(toChange(caller, name, input, upload)));
    },

    async upsert(caller: Caller, name: string, input: VolumeTemplateInput, upload: UploadQuery): Promise<Answer> {
      if (!isName(name)) {
        throw new AppError("invalid_request", "The name in the path must be letters a-z, digits and inner hyphens.");
      }
      if ((input.metadata.name ?? name) !== name) {
        throw new AppError("invalid_request", "metadata.name must be the name in the path");
      }
      return answer(caller, await store.upsert(toChange(caller, name, input, upload)));
    },

    async delete(caller: Caller, name: string): Promise<VolumeTemplate> {
      const removed = isName(name) ? await store.remove(caller.workspaceId, name) : undefined;
      if (removed === undefined) throw notFound();
      onRemoved(removed.versions);
      return present(removed, caller);
    },

    async deleteVersion(caller: Caller, name: string, version: string): Promise<VolumeTemplate> {
      const known = isName(name) && isName(version);
      const changed = known ? await store.removeVersion(caller.workspaceId, name, version) : undefined;
      if (changed === undefined) throw new AppError("not_found", "There is no such version of a volume template.");
      onRemoved([changed.removed]);
      return present(changed.left, caller);
    },

    ...createArrivals(store, config),
  };
}

/** For those who bring archives. */
function createArrivals(store: VolumeTemplateStore, config: VolumeTemplateConfig) {
  return {
    async findVersion(versionId: string): Promise<VersionRecord | undefined> {
      const row = await store.findVersion(versionId);
      return row && fromVersionRow(row);
    },

    listAwaited: async (query: AwaitedQuery): Promise<VersionRecord[]> =>
      (await store.listAwaited(query)).map(fromVersionRow),

    /** Bytes that archives of the workspace may still add. */
    async freeBytes(workspaceId: string): Promise<number> {
      return Math.max(0, config.workspaceMaxBytes - (await store.usedBytes(workspaceId)));
    },

    /** The archive is whole, checked and kept under the key: its version is READY when this resolves. Throws when it cannot be. */
    async accept(version: VersionRecord, object: StoredObject): Promise<void> {
      const { workspaceId: workspace_id, versionId: version_id } = version;
      const outcome = await store.accept({ workspace_id, version_id }, object, config.workspaceMaxBytes);
      if (outcome === "over_quota") throw overQuota();
      if (outcome === "gone") {
        throw new AppError("conflict", "The version is not awaited any more: it has its archive, or was deleted.");
      }
    },

    fail: (version: VersionRecord, message: string) => store.fail(version.versionId, message),

    listOwned: (keys: readonly string[]) => store.listOwned(keys),

    listAwaitedIds: (versionIds: readonly string[]) => store.listAwaitedIds(versionIds),
  };
}

export function overQuota(): AppError {
  const message = "The archives of the workspace's volume templates would exceed its quota; delete some first.";
  return new AppError("forbidden", message, { details: { error: "quota_exceeded" } });
}

function wantsUpload({ upload = false, version }: UploadQuery): boolean {
  if (version !== undefined && !upload) {
    throw new AppError("invalid_request", "query parameter version is only for upload=true");
  }
  if (version === reservedVersion) {
    throw new AppError(
      "invalid_request",
      `query parameter version must not be ${reservedVersion}, which names the newest`,
    );
  }
  return upload;
}

function toAwaited(config: VolumeTemplateConfig, bucket: string, { version }: UploadQuery): AwaitedVersion {
  const until = new Date(Date.now() + config.uploadUrlTtlMs).toISOString();
  return { name: version, bucket, until, versionsMax: config.versionsMax };
}

function readDraft({ metadata, spec }: VolumeTemplateInput): TemplateDraft {
  const { displayName, externalId, labels } = metadata;
  return { displayName, externalId, labels, defaultSizeMb: spec.defaultSize, description: spec.description };
}

function notFound(): AppError {
  return new AppError("not_found", "There is no volume template of this name.");
}
