// The people of a workspace as its administrators see them, and invitations as the invited see them.
import Type, { type Static } from "typebox";
import { endpoint } from "./endpoint.ts";

const RoleText = Type.Enum(["admin", "member"]);

export const WorkspaceUser = Type.Object({
  /** The user's id; an invitation that is not accepted yet has none. */
  sub: Type.Optional(Type.String()),
  email: Type.Optional(Type.String()),
  email_verified: Type.Boolean(),
  given_name: Type.Optional(Type.String()),
  family_name: Type.Optional(Type.String()),
  role: RoleText,
  accepted: Type.Boolean(),
  /** Whether the invitation has expired. */
  expired: Type.Boolean(),
});
export type WorkspaceUser = Static<typeof WorkspaceUser>;

export const PendingInvitation = Type.Object({
  email: Type.String(),
  role: RoleText,
  workspace: Type.String(),
  /** Id of who invited. */
  invitedBy: Type.String(),
  expiresAt: Type.String(),
  createdAt: Type.String(),
  updatedAt: Type.String(),
  createdBy: Type.String(),
  updatedBy: Type.String(),
});
export type PendingInvitation = Static<typeof PendingInvitation>;

export const Email = Type.String({
  minLength: 3,
  maxLength: 254,
  pattern: "^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?$",
  rule: "an email address",
});

const Params = Type.Object({ subOrEmail: Type.String() });
const tag = "users";

export const listWorkspaceUsers = endpoint({
  method: "GET",
  path: "/users",
  summary: "List the workspace's members and open invitations",
  tag,
  scope: "workspaces:get",
  role: "admin",
  response: Type.Array(WorkspaceUser),
});

export const inviteWorkspaceUser = endpoint({
  method: "POST",
  path: "/users",
  summary: "Invite a person by email; inviting again renews the invitation",
  tag,
  scope: "workspaces:invite",
  role: "admin",
  /** `member` when no role is given. */
  body: Type.Object({ email: Email, role: Type.Optional(RoleText) }),
  response: PendingInvitation,
  errors: [409],
});

export const updateWorkspaceUserRole = endpoint({
  method: "PUT",
  path: "/users/:subOrEmail",
  summary: "Change the role of a member or of an open invitation",
  tag,
  scope: "workspaces:update",
  role: "admin",
  params: Params,
  body: Type.Object({ role: RoleText }),
  response: WorkspaceUser,
  errors: [409],
});

export const removeWorkspaceUser = endpoint({
  method: "DELETE",
  path: "/users/:subOrEmail",
  summary: "Remove a member, effective at once, or withdraw an invitation",
  tag,
  scope: "workspaces:remove",
  role: "admin",
  params: Params,
  response: WorkspaceUser,
  errors: [409],
});

export const listInvitations = endpoint({
  method: "GET",
  path: "/profile/invitations",
  summary: "List the open invitations of the person who asks",
  tag,
  scope: "invitations:list",
  workspace: "none",
  response: Type.Array(PendingInvitation),
});
