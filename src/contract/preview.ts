// Previews (contract of the sandboxes' previews): addresses at which one port of a sandbox is reached without a key, and their tokens.
import Type, { type Static } from "typebox";
import { endpoint } from "./endpoint.ts";
import { CoreEvent, DisplayName, Name } from "./metadata.ts";
import { prefixMaxLength } from "./preview-address.ts";
import { sandboxStatuses } from "./sandbox-status.ts";

/** The port that stands for the sandbox API itself: a preview of it is a session. */
export const sessionPort = 443;
export const previewHeadersMax = 50;

const Headers = Type.Record(Type.String(), Type.String());

const HeadersInput = Type.Record(
  Type.String({ pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$" }),
  Type.String({ maxLength: 4_096, pattern: "^[\\t\\u0020-\\u007e]*$", rule: "visible ASCII characters and spaces" }),
  {
    maxProperties: previewHeadersMax,
    additionalProperties: false,
    rule: "a map whose keys are names of headers, of at most 128 characters",
  },
);

const PreviewMetadata = Type.Object(
  {
    name: Type.String(),
    displayName: Type.Optional(Type.String()),
    /** The sandbox. */
    resourceName: Type.String(),
    resourceType: Type.Literal("sandbox"),
    workspace: Type.String(),
    createdAt: Type.String(),
    updatedAt: Type.String(),
    createdBy: Type.String(),
    updatedBy: Type.String(),
  },
  { title: "PreviewMetadata" },
);

const settings = {
  public: Type.Optional(Type.Boolean()),
  prefixUrl: Type.Optional(Type.String()),
  expires: Type.Optional(Type.String({ maxLength: 64 })),
  ttl: Type.Optional(Type.String({ maxLength: 16 })),
};

export const Preview = Type.Object(
  {
    metadata: PreviewMetadata,
    spec: Type.Object(
      {
        ...settings,
        port: Type.Integer(),
        requestHeaders: Type.Optional(Headers),
        responseHeaders: Type.Optional(Headers),
        region: Type.String(),
        url: Type.String(),
      },
      { title: "PreviewSpec" },
    ),
    status: Type.Enum(sandboxStatuses),
    events: Type.Array(CoreEvent),
  },
  { title: "Preview" },
);
export type Preview = Static<typeof Preview>;

/** Read-only and unknown members are ignored, so a whole preview may be sent back. */
export const PreviewInput = Type.Object(
  {
    metadata: Type.Object({ name: Name, displayName: Type.Optional(DisplayName) }),
    spec: Type.Object(
      {
        ...settings,
        /** Of a server inside; 443 is the sandbox API. */
        port: Type.Integer({ minimum: 1, maximum: 65_535 }),
        /** Begins the host name; an empty one is none. */
        prefixUrl: Type.Optional(
          Type.String({
            maxLength: prefixMaxLength,
            pattern: "^([a-z0-9]([a-z0-9-]*[a-z0-9])?)?$",
            rule: "lowercase letters, digits and inner hyphens",
          }),
        ),
        customDomain: Type.Optional(Type.String({ maxLength: 253 })),
        /** Added to what reaches the server inside. */
        requestHeaders: Type.Optional(HeadersInput),
        /** Added to all answers, also to CORS preflights. */
        responseHeaders: Type.Optional(HeadersInput),
      },
      { title: "PreviewSpecInput" },
    ),
  },
  { title: "PreviewInput" },
);
export type PreviewInput = Static<typeof PreviewInput>;

export const PreviewToken = Type.Object(
  {
    metadata: Type.Object({
      name: Type.String(),
      previewName: Type.String(),
      resourceName: Type.String(),
      resourceType: Type.Literal("sandbox"),
      workspace: Type.String(),
    }),
    spec: Type.Object({
      /** For callers who may make tokens; those of before values were kept have none. */
      token: Type.Optional(Type.String()),
      expiresAt: Type.Optional(Type.String()),
      expired: Type.Boolean(),
    }),
  },
  { title: "PreviewToken" },
);
export type PreviewToken = Static<typeof PreviewToken>;

export const PreviewTokenInput = Type.Object(
  {
    metadata: Type.Object({ name: Name }),
    spec: Type.Optional(
      Type.Object({
        /** Without it the token is good for as long as its preview exists. */
        expiresAt: Type.Optional(Type.String({ maxLength: 64 })),
      }),
    ),
  },
  { title: "PreviewTokenInput" },
);
export type PreviewTokenInput = Static<typeof PreviewTokenInput>;

/** Any text: one that cannot be a name is something that does not exist. */
const SandboxParams = Type.Object({ sandboxName: Type.String() });
const PreviewParams = Type.Object({ ...SandboxParams.properties, previewName: Type.String() });

const tag = "previews";

export const listSandboxPreviews = endpoint({
  method: "GET",
  path: "/sandboxes/:sandboxName/previews",
  summary: "List a sandbox's previews, newest first",
  tag,
  scope: "sandboxes:get",
  params: SandboxParams,
  response: Type.Array(Preview),
});

export const createSandboxPreview = endpoint({
  method: "POST",
  path: "/sandboxes/:sandboxName/previews",
  summary: "Create a preview; with `force` it replaces one of the workspace that has its name or its prefix",
  tag,
  scope: "sandboxes:create",
  params: SandboxParams,
  query: Type.Object({ force: Type.Optional(Type.Boolean()) }),
  body: PreviewInput,
  response: Preview,
  errors: [409],
});

export const getSandboxPreview = endpoint({
  method: "GET",
  path: "/sandboxes/:sandboxName/previews/:previewName",
  summary: "Get a preview",
  tag,
  scope: "sandboxes:get",
  params: PreviewParams,
  response: Preview,
});

export const updateSandboxPreview = endpoint({
  method: "PUT",
  path: "/sandboxes/:sandboxName/previews/:previewName",
  summary: "Replace a preview's settings; its tokens stay",
  tag,
  scope: "sandboxes:update",
  params: PreviewParams,
  body: PreviewInput,
  response: Preview,
  errors: [409],
});

export const deleteSandboxPreview = endpoint({
  method: "DELETE",
  path: "/sandboxes/:sandboxName/previews/:previewName",
  summary: "Delete a preview and its tokens; nothing is served at its address any more when the answer arrives",
  tag,
  scope: "sandboxes:delete",
  params: PreviewParams,
  response: Preview,
});

export const listSandboxPreviewTokens = endpoint({
  method: "GET",
  path: "/sandboxes/:sandboxName/previews/:previewName/tokens",
  summary: "List a preview's tokens, newest first; with their values for callers with the scope `sandboxes:update`",
  tag,
  scope: "sandboxes:get",
  params: PreviewParams,
  response: Type.Array(PreviewToken),
});

export const createSandboxPreviewToken = endpoint({
  method: "POST",
  path: "/sandboxes/:sandboxName/previews/:previewName/tokens",
  summary: "Create a token for a preview",
  tag,
  scope: "sandboxes:update",
  params: PreviewParams,
  body: PreviewTokenInput,
  response: PreviewToken,
  errors: [409],
});

export const deleteSandboxPreviewToken = endpoint({
  method: "DELETE",
  path: "/sandboxes/:sandboxName/previews/:previewName/tokens/:tokenName",
  summary: "Revoke a token, by its value or its name; no request is accepted with it when the answer arrives",
  tag,
  scope: "sandboxes:delete",
  params: Type.Object({ ...PreviewParams.properties, tokenName: Type.String() }),
  response: Type.Object({ message: Type.String() }),
});
