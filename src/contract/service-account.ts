// Service accounts of a workspace: programs that sign in with a client id and secret, or with API keys of their own.
import Type, { type Static } from "typebox";
import { endpoint } from "./endpoint.ts";

const NameText = Type.String({
  minLength: 1,
  maxLength: 63,
  pattern: "^[^\\u0000-\\u001f\\u007f]+$",
  rule: "1 to 63 printable characters",
});
const Description = Type.String({ maxLength: 1024 });
const RoleText = Type.Enum(["admin", "member"]);

export const ServiceAccount = Type.Object({
  client_id: Type.String(),
  name: Type.String(),
  description: Type.String(),
  /** What it may do at most, besides the scopes of its tokens. */
  role: RoleText,
  created_at: Type.String(),
  updated_at: Type.String(),
});
export type ServiceAccount = Static<typeof ServiceAccount>;

export const NewServiceAccount = Type.Object({
  ...ServiceAccount.properties,
  /** Shown in this answer and never again. */
  client_secret: Type.String(),
});
export type NewServiceAccount = Static<typeof NewServiceAccount>;

const ServiceAccountInput = Type.Object({
  name: NameText,
  description: Type.Optional(Description),
  /** `member` when absent. */
  role: Type.Optional(RoleText),
});
export type ServiceAccountInput = Static<typeof ServiceAccountInput>;

const ServiceAccountChanges = Type.Object({
  name: Type.Optional(NameText),
  description: Type.Optional(Description),
  role: Type.Optional(RoleText),
});
export type ServiceAccountChanges = Static<typeof ServiceAccountChanges>;

const Params = Type.Object({ clientId: Type.String() });
const tag = "service accounts";

export const listServiceAccounts = endpoint({
  method: "GET",
  path: "/service_accounts",
  summary: "List the workspace's service accounts",
  tag,
  scope: "workspaces:get",
  response: Type.Array(ServiceAccount),
});

export const createServiceAccount = endpoint({
  method: "POST",
  path: "/service_accounts",
  summary: "Create a service account; its secret is shown in this answer only",
  tag,
  scope: "workspaces:update",
  role: "admin",
  body: ServiceAccountInput,
  response: NewServiceAccount,
  errors: [409],
});

export const updateServiceAccount = endpoint({
  method: "PUT",
  path: "/service_accounts/:clientId",
  summary: "Change a service account's name, description or role",
  tag,
  scope: "workspaces:update",
  role: "admin",
  params: Params,
  body: ServiceAccountChanges,
  response: ServiceAccount,
});

export const deleteServiceAccount = endpoint({
  method: "DELETE",
  path: "/service_accounts/:clientId",
  summary: "Delete a service account; its keys and tokens are refused from then on",
  tag,
  scope: "workspaces:update",
  role: "admin",
  params: Params,
  response: ServiceAccount,
});
