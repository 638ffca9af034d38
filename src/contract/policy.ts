// Policies of a workspace: those for locations say where its sandboxes may be created.
import Type, { type Static } from "typebox";
import { endpoint } from "./endpoint.ts";
import { Metadata, MetadataInput, Name } from "./metadata.ts";
import { ListOf, PagingQuery } from "./page.ts";

export const policyLocationsMax = 100;

export const PolicyLocation = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 63 }),
  type: Type.Enum(["location", "country", "continent"]),
});
export type PolicyLocation = Static<typeof PolicyLocation>;

const PolicySpec = Type.Object({
  type: Type.String(),
  resourceTypes: Type.Array(Type.String()),
  locations: Type.Array(PolicyLocation),
});
export type PolicySpec = Static<typeof PolicySpec>;

const UsageCounts = Type.Object({
  agents: Type.Integer(),
  functions: Type.Integer(),
  jobs: Type.Integer(),
  models: Type.Integer(),
  sandboxes: Type.Integer(),
});

export const Policy = Type.Object({ metadata: Metadata, spec: PolicySpec, usage: Type.Optional(UsageCounts) });
export type Policy = Static<typeof Policy>;

/** Read-only and unknown members are ignored, so a whole resource may be sent back. */
export const PolicyInput = Type.Object({
  metadata: Type.Object({ ...MetadataInput.properties, name: Name }),
  spec: Type.Object({
    type: Type.Optional(Type.Enum(["location", "flavor", "maxToken"])),
    resourceTypes: Type.Optional(
      Type.Array(Type.Enum(["model", "function", "agent", "sandbox", "application"]), { maxItems: 5 }),
    ),
    locations: Type.Optional(Type.Array(PolicyLocation, { maxItems: policyLocationsMax })),
    flavors: Type.Optional(Type.Array(Type.Unknown(), { maxItems: 100 })),
    maxTokens: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    sandbox: Type.Optional(Type.Boolean()),
  }),
});
export type PolicyInput = Static<typeof PolicyInput>;

const Uses = Type.Array(Type.Object({ name: Type.String() }));

export const PolicyUsages = Type.Object({
  agents: Uses,
  functions: Uses,
  jobs: Uses,
  models: Uses,
  /** Up to a thousand. */
  sandboxes: Uses,
});
export type PolicyUsages = Static<typeof PolicyUsages>;

/** Any text: one that cannot be a name is a policy that does not exist. */
const PolicyParams = Type.Object({ policyName: Type.String() });
const tag = "policies";
const role = "admin";

export const listPolicies = endpoint({
  method: "GET",
  path: "/policies",
  summary: "List the policies of the workspace",
  tag,
  role,
  scope: "policies:list",
  query: Type.Object(PagingQuery),
  response: ListOf(Policy),
});

export const createPolicy = endpoint({
  method: "POST",
  path: "/policies",
  summary: "Create a policy",
  tag,
  role,
  scope: "policies:create",
  body: PolicyInput,
  response: Policy,
  errors: [409],
});

export const getPolicy = endpoint({
  method: "GET",
  path: "/policies/:policyName",
  summary: "Get a policy",
  tag,
  role,
  scope: "policies:get",
  params: PolicyParams,
  response: Policy,
});

export const updatePolicy = endpoint({
  method: "PUT",
  path: "/policies/:policyName",
  summary: "Replace a policy",
  tag,
  role,
  scope: "policies:update",
  params: PolicyParams,
  body: PolicyInput,
  response: Policy,
});

export const deletePolicy = endpoint({
  method: "DELETE",
  path: "/policies/:policyName",
  summary: "Delete a policy",
  tag,
  role,
  scope: "policies:delete",
  params: PolicyParams,
  response: Policy,
});

export const listPolicyUsages = endpoint({
  method: "GET",
  path: "/policies/:policyName/usages",
  summary: "List what a policy applies to",
  tag,
  role,
  scope: ["policies:get", "agents:list", "functions:list", "models:list", "sandboxes:list", "jobs:list"],
  params: PolicyParams,
  response: PolicyUsages,
});
