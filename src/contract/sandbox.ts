// The Sandbox resource (spec 2.1) and the operations on it.
import Type, { type Static } from "typebox";
import { endpoint } from "./endpoint.ts";
import { SandboxErrorBody } from "./error.ts";
import { CoreEvent, ExternalId, Metadata, MetadataInput } from "./metadata.ts";
import { ListOf, PagingQuery } from "./page.ts";
import { SandboxSpec, SandboxSpecInput } from "./sandbox-spec.ts";
import { sandboxStatuses } from "./sandbox-status.ts";

/** The generation whose kernel features these sandboxes have. */
export const nodeGeneration = "mk3.0";

export const InfrastructureError = Type.Object(
  {
    code: Type.String(),
    fatal: Type.Boolean(),
    instance: Type.String(),
    message: Type.String(),
    time: Type.String(),
  },
  { title: "SandboxInfrastructureError" },
);

const SandboxArchive = Type.Object(
  {
    createdAt: Type.Optional(Type.String()),
    generation: Type.Optional(Type.String()),
    key: Type.Optional(Type.String()),
    size: Type.Optional(Type.Integer()),
    startedAt: Type.Optional(Type.String()),
    restoreStartedAt: Type.Optional(Type.String()),
    restore: Type.Optional(
      Type.Object({
        state: Type.Optional(Type.Enum(["downloading", "extracting", "relaunching", "succeeded", "failed"])),
        files: Type.Optional(Type.Integer()),
        restoredBytes: Type.Optional(Type.Integer()),
        totalBytes: Type.Optional(Type.Integer()),
      }),
    ),
  },
  { title: "SandboxArchive" },
);

export const Sandbox = Type.Object(
  {
    metadata: Metadata,
    spec: SandboxSpec,
    status: Type.Enum(sandboxStatuses),
    state: Type.Optional(Type.Enum(["RUNNING", "STANDBY"])),
    archive: Type.Optional(SandboxArchive),
    /** Not in lists. */
    errors: Type.Optional(Type.Array(InfrastructureError)),
    /** Not in lists. */
    events: Type.Optional(Type.Array(CoreEvent)),
    expiresIn: Type.Optional(Type.Integer()),
    lastUsedAt: Type.Optional(Type.String()),
    nodeGeneration: Type.Enum(["mk3.0", "mk3.1"]),
  },
  { title: "Sandbox" },
);
export type Sandbox = Static<typeof Sandbox>;

/** Read-only and unknown members are ignored, so a whole resource may be sent back. */
export const SandboxInput = Type.Object({ metadata: MetadataInput, spec: SandboxSpecInput }, { title: "SandboxInput" });
export type SandboxInput = Static<typeof SandboxInput>;

/** Any text: one that cannot be a name is a sandbox that does not exist. */
const SandboxParams = Type.Object({ sandboxName: Type.String() });

export const createSandbox = endpoint({
  method: "POST",
  path: "/sandboxes",
  summary: "Create a sandbox; it is usable when the answer arrives",
  tag: "sandboxes",
  scope: "sandboxes:create",
  query: Type.Object({ createIfNotExist: Type.Optional(Type.Boolean()) }),
  body: SandboxInput,
  response: Sandbox,
  errors: [409, 422, 503],
  errorBody: SandboxErrorBody,
  headers: Type.Object({
    "Idempotency-Key": Type.Optional(
      Type.String({ maxLength: 255, description: "Repeating a request with its key has one effect and one answer." }),
    ),
  }),
});

export const listSandboxes = endpoint({
  method: "GET",
  path: "/sandboxes",
  summary: "List the workspace's sandboxes",
  tag: "sandboxes",
  scope: "sandboxes:list",
  query: Type.Object({
    ...PagingQuery,
    showTerminated: Type.Optional(Type.Boolean()),
    /** Status names separated by commas, in any case; takes precedence over `showTerminated`. */
    status: Type.Optional(Type.String({ maxLength: 512 })),
    externalId: Type.Optional(ExternalId),
  }),
  response: ListOf(Sandbox),
});

export const getSandbox = endpoint({
  method: "GET",
  path: "/sandboxes/:sandboxName",
  summary: "Get a sandbox by name",
  tag: "sandboxes",
  scope: "sandboxes:get",
  params: SandboxParams,
  query: Type.Object({ show_secrets: Type.Optional(Type.Boolean()) }),
  response: Sandbox,
});

/** Any text, as with names. */
export const getSandboxByExternalId = endpoint({
  method: "GET",
  path: "/sandboxes/by-external-id/:externalId",
  summary: "Get the newest sandbox with an external id that is not gone",
  tag: "sandboxes",
  scope: "sandboxes:get",
  params: Type.Object({ externalId: Type.String() }),
  query: Type.Object({ show_secrets: Type.Optional(Type.Boolean()) }),
  response: Sandbox,
});

export const updateSandbox = endpoint({
  method: "PUT",
  path: "/sandboxes/:sandboxName",
  summary:
    "Replace a sandbox's settings; another image, memory or environment gives it a new instance without its files",
  tag: "sandboxes",
  scope: "sandboxes:update",
  params: SandboxParams,
  body: SandboxInput,
  response: Sandbox,
  errors: [409, 503],
});

export const deleteSandbox = endpoint({
  method: "DELETE",
  path: "/sandboxes/:sandboxName",
  summary: "Delete a sandbox and everything in it; its name is free at once",
  tag: "sandboxes",
  scope: "sandboxes:delete",
  params: SandboxParams,
  response: Sandbox,
});
