// Volume templates (spec 2.14, 4.5): file systems that new volumes begin with, uploaded as tar archives; each archive is a version.
import Type, { type Static } from "typebox";
import { endpoint } from "./endpoint.ts";
import { Metadata, MetadataInput, Name } from "./metadata.ts";

export const descriptionMaxLength = 1_024;
export const defaultSizeMaxMb = 4_194_304;

/** Answered with the URL that takes the archive of the version in this header. */
export const uploadUrlHeader = "X-Blaxel-Upload-Url";

/** `created` until an archive has been accepted, then `ready`; `error` when one was refused and none is usable. */
export const volumeTemplateStatuses = ["created", "ready", "error"] as const;

/** CREATED awaits its archive. READY never changes again. FAILED can be asked an upload URL for again. */
export const volumeTemplateVersionStatuses = ["CREATED", "READY", "FAILED"] as const;
export type VolumeTemplateVersionStatus = (typeof volumeTemplateVersionStatuses)[number];

export const VolumeTemplateVersion = Type.Object({
  /** Where the archive is kept: the bucket, or the name of the local directory. */
  bucket: Type.Optional(Type.String()),
  /** Bytes of the archive; absent until it is READY. */
  contentSize: Type.Optional(Type.Integer()),
  name: Type.String(),
  region: Type.Optional(Type.String()),
  status: Type.Enum(volumeTemplateVersionStatuses),
  templateName: Type.String(),
  versionId: Type.String(),
  workspace: Type.String(),
  /** Why it is FAILED. */
  message: Type.Optional(Type.String()),
});
export type VolumeTemplateVersion = Static<typeof VolumeTemplateVersion>;

export const VolumeTemplate = Type.Object({
  metadata: Metadata,
  spec: Type.Object({
    /** Megabytes of a volume made from it without a size of its own. */
    defaultSize: Type.Optional(Type.Integer()),
    description: Type.Optional(Type.String()),
  }),
  state: Type.Object({
    lastVersionUploadedAt: Type.Optional(Type.String()),
    /** The `versionId` of the READY version that was uploaded last. */
    latestVersion: Type.Optional(Type.String()),
    status: Type.Enum(volumeTemplateStatuses),
    versionCount: Type.Integer(),
  }),
  versions: Type.Array(VolumeTemplateVersion),
});
export type VolumeTemplate = Static<typeof VolumeTemplate>;

/** Read-only and unknown members are ignored, so a whole resource may be sent back. */
export const VolumeTemplateInput = Type.Object({
  metadata: MetadataInput,
  spec: Type.Object({
    defaultSize: Type.Optional(Type.Integer({ minimum: 1, maximum: defaultSizeMaxMb })),
    description: Type.Optional(Type.String({ maxLength: descriptionMaxLength })),
  }),
});
export type VolumeTemplateInput = Static<typeof VolumeTemplateInput>;

const UploadQuery = Type.Object({
  /** Whether a URL is wanted that takes the archive of a version. */
  upload: Type.Optional(Type.Boolean()),
  /** Which version; without it the platform numbers them. Only with `upload`. */
  version: Type.Optional(Name),
});
export type UploadQuery = Static<typeof UploadQuery>;

const responseHeaders = {
  [uploadUrlHeader]: "With `upload`: a URL that takes the archive by PUT and needs no credential.",
};

/** Any text: one that cannot be a name is a template that does not exist. */
const TemplateParams = Type.Object({ volumeTemplateName: Type.String() });

export const listVolumeTemplates = endpoint({
  method: "GET",
  path: "/volume_templates",
  summary: "List the workspace's volume templates",
  tag: "volume templates",
  scope: "volumeTemplates:list",
  response: Type.Array(VolumeTemplate),
});

export const createVolumeTemplate = endpoint({
  method: "POST",
  path: "/volume_templates",
  summary: "Create a volume template",
  tag: "volume templates",
  scope: "volumeTemplates:create",
  query: UploadQuery,
  body: VolumeTemplateInput,
  response: VolumeTemplate,
  responseHeaders,
  errors: [409],
});

export const getVolumeTemplate = endpoint({
  method: "GET",
  path: "/volume_templates/:volumeTemplateName",
  summary: "Get a volume template with its versions",
  tag: "volume templates",
  scope: "volumeTemplates:get",
  params: TemplateParams,
  response: VolumeTemplate,
});

export const upsertVolumeTemplate = endpoint({
  method: "PUT",
  path: "/volume_templates/:volumeTemplateName",
  summary: "Create or replace a volume template; its versions stay",
  tag: "volume templates",
  scope: "volumeTemplates:upsert",
  params: TemplateParams,
  query: UploadQuery,
  body: VolumeTemplateInput,
  response: VolumeTemplate,
  responseHeaders,
  errors: [409],
});

export const deleteVolumeTemplate = endpoint({
  method: "DELETE",
  path: "/volume_templates/:volumeTemplateName",
  summary: "Delete a volume template and its versions",
  tag: "volume templates",
  scope: "volumeTemplates:delete",
  params: TemplateParams,
  response: VolumeTemplate,
});

export const deleteVolumeTemplateVersion = endpoint({
  method: "DELETE",
  path: "/volume_templates/:volumeTemplateName/versions/:versionName",
  summary: "Delete a version of a volume template that has others",
  tag: "volume templates",
  scope: "volumeTemplates:delete",
  params: Type.Object({ volumeTemplateName: Type.String(), versionName: Type.String() }),
  response: Type.Object({ message: Type.String(), template: VolumeTemplate }),
});
