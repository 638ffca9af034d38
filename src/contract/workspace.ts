// Workspaces (the tenants), and the operations on them that name one in their path.
import Type, { type Static } from "typebox";
import { displayNameMaxLength } from "../core/names.ts";
import { endpoint } from "./endpoint.ts";
import { Labels, Name } from "./metadata.ts";

export const Workspace = Type.Object({
  id: Type.String(),
  name: Type.String(),
  displayName: Type.Optional(Type.String()),
  labels: Type.Optional(Type.Record(Type.String(), Type.String())),
  region: Type.String(),
  status: Type.Enum(["ready"]),
  /** Only when asked for with `countResources`. */
  resourceCounts: Type.Optional(Type.Record(Type.String(), Type.Integer())),
  createdAt: Type.String(),
  updatedAt: Type.String(),
  createdBy: Type.Optional(Type.String()),
  updatedBy: Type.Optional(Type.String()),
});
export type Workspace = Static<typeof Workspace>;

const changeable = {
  displayName: Type.Optional(Type.String({ maxLength: displayNameMaxLength })),
  labels: Type.Optional(Labels),
};

export const WorkspaceInput = Type.Object({ name: Name, ...changeable });
export type WorkspaceInput = Static<typeof WorkspaceInput>;

/** The name of a workspace is part of addresses and never changes. */
export const WorkspaceChanges = Type.Object({ name: Type.Optional(Name), ...changeable });
export type WorkspaceChanges = Static<typeof WorkspaceChanges>;

export const unavailabilityReasons = ["taken", "forbidden_reserved", "forbidden_blaxel", "forbidden_v_prefix"] as const;
export type UnavailabilityReason = (typeof unavailabilityReasons)[number];

/** Without `reason` and `message` when the name is available. */
export const WorkspaceAvailability = Type.Object({
  available: Type.Boolean(),
  reason: Type.Optional(Type.Enum([...unavailabilityReasons])),
  message: Type.Optional(Type.String()),
});
export type WorkspaceAvailability = Static<typeof WorkspaceAvailability>;

const Params = Type.Object({ workspaceName: Type.String() });
const tag = "workspaces";

export const listWorkspaces = endpoint({
  method: "GET",
  path: "/workspaces",
  summary: "List the workspaces the credential is good for",
  tag,
  scope: "workspaces:list",
  workspace: "none",
  response: Type.Array(Workspace),
});

export const createWorkspace = endpoint({
  method: "POST",
  path: "/workspaces",
  summary: "Create a workspace; whoever asks becomes its administrator",
  tag,
  scope: "workspaces:create",
  workspace: "none",
  body: WorkspaceInput,
  response: Workspace,
  errors: [409],
});

export const checkWorkspaceAvailability = endpoint({
  method: "POST",
  path: "/workspaces/availability",
  summary: "Say whether a workspace could be created with a name",
  tag,
  scope: "workspaces:create",
  workspace: "none",
  changes: false,
  query: Type.Object({ withReason: Type.Optional(Type.Boolean()) }),
  body: Type.Object({ name: Name }),
  response: Type.Union([Type.Boolean(), WorkspaceAvailability]),
});

export const getWorkspace = endpoint({
  method: "GET",
  path: "/workspaces/:workspaceName",
  summary: "Get a workspace, with how many resources it has if asked",
  tag,
  scope: "workspaces:get",
  workspace: "path",
  params: Params,
  query: Type.Object({ countResources: Type.Optional(Type.Boolean()) }),
  response: Workspace,
});

export const updateWorkspace = endpoint({
  method: "PUT",
  path: "/workspaces/:workspaceName",
  summary: "Change a workspace's display name and labels",
  tag,
  scope: "workspaces:update",
  role: "admin",
  workspace: "path",
  params: Params,
  body: WorkspaceChanges,
  response: Workspace,
});

export const deleteWorkspace = endpoint({
  method: "DELETE",
  path: "/workspaces/:workspaceName",
  summary: "Delete an empty workspace, with its members and service accounts",
  tag,
  scope: "workspaces:delete",
  role: "admin",
  workspace: "path",
  params: Params,
  response: Workspace,
  errors: [409],
});

export const leaveWorkspace = endpoint({
  method: "DELETE",
  path: "/workspaces/:workspaceName/leave",
  summary: "Leave a workspace; its last administrator cannot",
  tag,
  scope: "workspaces:leave",
  workspace: "path",
  params: Params,
  response: Workspace,
  errors: [409],
});

export const acceptInvitation = endpoint({
  method: "POST",
  path: "/workspaces/:workspaceName/join",
  summary: "Accept an invitation into a workspace",
  tag,
  scope: "workspaces:accept",
  workspace: "none",
  params: Params,
  response: Workspace,
});

export const declineInvitation = endpoint({
  method: "POST",
  path: "/workspaces/:workspaceName/decline",
  summary: "Decline an invitation into a workspace",
  tag,
  scope: "workspaces:decline",
  workspace: "none",
  params: Params,
  response: Type.Object({ message: Type.String() }),
});
