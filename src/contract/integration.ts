// Integration connections (spec 2.13): credentials and settings for an external service, the models it offers, and the known kinds.
import Type, { type Static } from "typebox";
import { endpoint } from "./endpoint.ts";
import { Metadata, MetadataInput, Name } from "./metadata.ts";

/** Stands for every value of `spec.secret` in answers; sent back, it leaves the value as it is. */
export const connectionSecretMask = "********";
export const connectionEntriesMax = 64;
export const connectionKeyMaxLength = 128;
export const configValueMaxLength = 4_096;
export const secretValueMaxLength = 32_768;

/** Keys are visible ASCII, so that they can stand in messages, references and logs. */
function entries(valueMaxLength: number) {
  return Type.Record(
    Type.String({ pattern: `^[\\u0021-\\u007e]{1,${connectionKeyMaxLength}}$` }),
    Type.String({ maxLength: valueMaxLength, pattern: "^[^\\u0000]*$", rule: "a text without NUL" }),
    {
      maxProperties: connectionEntriesMax,
      additionalProperties: false,
      rule: `a map whose keys have 1 to ${connectionKeyMaxLength} visible ASCII characters`,
    },
  );
}

const Texts = Type.Record(Type.String(), Type.String());

export const IntegrationConnection = Type.Object({
  metadata: Metadata,
  spec: Type.Object({
    integration: Type.Optional(Type.String()),
    sandbox: Type.Optional(Type.Boolean()),
    config: Type.Optional(Texts),
    /** Every value is the mask. */
    secret: Type.Optional(Texts),
  }),
});
export type IntegrationConnection = Static<typeof IntegrationConnection>;

/** Read-only and unknown members are ignored, so a whole resource may be sent back. */
export const IntegrationConnectionInput = Type.Object({
  metadata: Type.Object({ ...MetadataInput.properties, name: Name }),
  spec: Type.Object({
    /** The kind of service, e.g. `openai`; without one the connection only keeps credentials. */
    integration: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
    /** The credentials are for tests. */
    sandbox: Type.Optional(Type.Boolean()),
    config: Type.Optional(entries(configValueMaxLength)),
    secret: Type.Optional(entries(secretValueMaxLength)),
  }),
});
export type IntegrationConnectionInput = Static<typeof IntegrationConnectionInput>;

export const ConnectionModel = Type.Object({
  id: Type.String(),
  name: Type.String(),
  /** The kind of the connection, or who made the model where a service offers those of several. */
  provider: Type.String(),
  createdAt: Type.Optional(Type.String()),
  /** Tokens. */
  contextWindow: Type.Optional(Type.Integer()),
});
export type ConnectionModel = Static<typeof ConnectionModel>;

export const EndpointConfiguration = Type.Object({
  name: Type.String(),
  method: Type.String(),
  url: Type.String(),
  /** Besides the credential. */
  headers: Type.Optional(Texts),
});
export type EndpointConfiguration = Static<typeof EndpointConfiguration>;

const EndpointToken = Type.Object({
  received: Type.Optional(Type.String()),
  sent: Type.Optional(Type.String()),
  total: Type.Optional(Type.String()),
});

/** What a kind is, for people and programs that make connections. */
export const Integration = Type.Object({
  name: Type.String(),
  additionalInfos: Texts,
  endpoints: Type.Record(
    Type.String(),
    Type.Object({
      method: Type.String(),
      body: Type.Optional(Type.String()),
      streamKey: Type.Optional(Type.String()),
      token: Type.Optional(EndpointToken),
      streamToken: Type.Optional(EndpointToken),
      models: Type.Array(Type.Record(Type.String(), Type.Unknown())),
      ignoreModels: Type.Array(Type.Record(Type.String(), Type.Unknown())),
    }),
  ),
  headers: Texts,
  params: Texts,
  organizations: Type.Array(Type.Object({ id: Type.String() })),
  repositories: Type.Array(Type.Object({ id: Type.String() })),
});
export type Integration = Static<typeof Integration>;

/** Any text: one that cannot be a name is a connection that does not exist. */
const ConnectionParams = Type.Object({ connectionName: Type.String() });

const tag = "integrations";
const role = "admin";

export const listIntegrationConnections = endpoint({
  method: "GET",
  path: "/integrations/connections",
  summary: "List the workspace's integration connections, newest first",
  tag,
  role,
  scope: "integrations:list",
  response: Type.Array(IntegrationConnection),
});

export const createIntegrationConnection = endpoint({
  method: "POST",
  path: "/integrations/connections",
  summary: "Create an integration connection",
  tag,
  role,
  scope: "integrations:create",
  body: IntegrationConnectionInput,
  response: IntegrationConnection,
  errors: [409],
});

export const getIntegrationConnection = endpoint({
  method: "GET",
  path: "/integrations/connections/:connectionName",
  summary: "Get an integration connection; the values of its secret are masked",
  tag,
  role,
  scope: "integrations:get",
  params: ConnectionParams,
  response: IntegrationConnection,
});

export const updateIntegrationConnection = endpoint({
  method: "PUT",
  path: "/integrations/connections/:connectionName",
  summary: "Replace an integration connection; masked values of its secret stay as they are",
  tag,
  role,
  scope: "integrations:update",
  params: ConnectionParams,
  body: IntegrationConnectionInput,
  response: IntegrationConnection,
  errors: [409],
});

export const deleteIntegrationConnection = endpoint({
  method: "DELETE",
  path: "/integrations/connections/:connectionName",
  summary: "Delete an integration connection that nothing uses",
  tag,
  role,
  scope: "integrations:delete",
  params: ConnectionParams,
  response: IntegrationConnection,
  errors: [409],
});

export const listIntegrationConnectionModels = endpoint({
  method: "GET",
  path: "/integrations/connections/:connectionName/models",
  summary: "List the models that the connection's service offers",
  tag,
  role,
  scope: "integrations:list",
  params: ConnectionParams,
  response: Type.Array(ConnectionModel),
  errors: [502, 503],
});

export const getIntegrationConnectionModel = endpoint({
  method: "GET",
  path: "/integrations/connections/:connectionName/models/:modelId",
  summary: "Get one of the models that the connection's service offers; slashes in its id are percent-encoded",
  tag,
  role,
  scope: "integrations:get",
  params: Type.Object({ ...ConnectionParams.properties, modelId: Type.String() }),
  response: ConnectionModel,
  errors: [502, 503],
});

export const getIntegrationConnectionModelEndpointConfigurations = endpoint({
  method: "GET",
  path: "/integrations/connections/:connectionName/endpointConfigurations",
  summary: "List the operations on models that the connection's service has, for whoever calls it themselves",
  tag,
  role,
  scope: "integrations:list",
  params: ConnectionParams,
  response: Type.Array(EndpointConfiguration),
});

export const getIntegration = endpoint({
  method: "GET",
  path: "/integrations/:integrationName",
  summary: "Describe a kind of service that connections can be for",
  tag,
  scope: "integrations:list",
  params: Type.Object({ integrationName: Type.String() }),
  response: Integration,
});
