// Images that sandboxes of a workspace can be made from: the platform's own, and those its sandboxes have had pulled. And the hub of the former.
import Type, { type Static } from "typebox";
import { endpoint } from "./endpoint.ts";
import { Port } from "./sandbox-spec.ts";

export const ImageTag = Type.Object({
  /** A tag, or a digest for what was asked for by digest. */
  name: Type.String(),
  /** Bytes on disk. */
  size: Type.Optional(Type.Integer()),
  createdAt: Type.String(),
  updatedAt: Type.String(),
});
export type ImageTag = Static<typeof ImageTag>;

export const Image = Type.Object({
  metadata: Type.Object({
    /** Registry and repository, e.g. `docker.io/library/alpine` or `blaxel/base-image`. */
    name: Type.String(),
    displayName: Type.String(),
    resourceType: Type.String(),
    status: Type.String(),
    workspace: Type.String(),
    createdAt: Type.String(),
    updatedAt: Type.String(),
    /** When the workspace last made a sandbox from it, to the minute. */
    lastDeployedAt: Type.Optional(Type.String()),
  }),
  spec: Type.Object({ size: Type.Optional(Type.Integer()), tags: Type.Array(ImageTag) }),
});
export type Image = Static<typeof Image>;

/** Any text: one that cannot be a name is an image that does not exist. */
const ImageParams = { resourceType: Type.String(), imageName: Type.String() };
const tag = "images";

export const listImages = endpoint({
  method: "GET",
  path: "/images",
  summary: "List the images of the workspace",
  tag,
  scope: "images:list",
  response: Type.Array(Image),
});

export const getImage = endpoint({
  method: "GET",
  path: "/images/:resourceType/:imageName",
  summary: "Get an image with its tags",
  tag,
  scope: "images:get",
  params: Type.Object(ImageParams),
  response: Image,
});

export const deleteImage = endpoint({
  method: "DELETE",
  path: "/images/:resourceType/:imageName",
  summary: "Delete a pulled image that no sandbox uses, with all its tags",
  tag,
  scope: "images:delete",
  params: Type.Object(ImageParams),
  response: Image,
});

export const deleteImageTag = endpoint({
  method: "DELETE",
  path: "/images/:resourceType/:imageName/tags/:tagName",
  summary: "Delete one tag of a pulled image that no sandbox uses",
  tag,
  scope: "images:delete",
  params: Type.Object({ ...ImageParams, tagName: Type.String() }),
  response: Image,
});

export const cleanUpImages = endpoint({
  method: "DELETE",
  path: "/images",
  summary: "Delete every pulled image of the workspace that no sandbox uses",
  tag,
  scope: "images:delete",
  response: Type.Object({ deleted: Type.Integer(), message: Type.String() }),
});

export const SandboxDefinition = Type.Object({
  name: Type.String(),
  displayName: Type.String(),
  description: Type.String(),
  image: Type.String(),
  /** Megabytes a sandbox gets when its caller does not say. */
  memory: Type.Integer(),
  ports: Type.Array(Port),
  categories: Type.Array(Type.Record(Type.String(), Type.Unknown())),
  tags: Type.String(),
  hidden: Type.Boolean(),
  enterprise: Type.Boolean(),
  coming_soon: Type.Boolean(),
});
export type SandboxDefinition = Static<typeof SandboxDefinition>;

export const listSandboxHub = endpoint({
  method: "GET",
  path: "/sandbox/hub",
  summary: "List the platform images of this installation",
  tag,
  scope: "sandboxhub:list",
  response: Type.Array(SandboxDefinition),
});
