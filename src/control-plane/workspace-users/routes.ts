// The HTTP operations on the people of a workspace.
import type { FastifyInstance } from "fastify";
import { implement } from "../../contract/implement.ts";
import {
  inviteWorkspaceUser,
  listInvitations,
  listWorkspaceUsers,
  removeWorkspaceUser,
  updateWorkspaceUserRole,
} from "../../contract/workspace-user.ts";
import { callerOf } from "../app.ts";
import { personOf } from "../auth/caller.ts";
import type { Invitations } from "./invitations.ts";
import type { WorkspaceUserService } from "./service.ts";

export type WorkspaceUserRoutes = { service: WorkspaceUserService; invitations: Invitations };

export function mountWorkspaceUsers(app: FastifyInstance, { service, invitations }: WorkspaceUserRoutes): void {
  implement(app, listWorkspaceUsers, (_input, request) => service.list(callerOf(request)));
  implement(app, inviteWorkspaceUser, ({ body }, request) => service.invite(callerOf(request), body));
  implement(app, updateWorkspaceUserRole, ({ params, body }, request) =>
    service.changeRole(callerOf(request), params.subOrEmail, body.role),
  );
  implement(app, removeWorkspaceUser, ({ params }, request) => service.remove(callerOf(request), params.subOrEmail));
  implement(app, listInvitations, (_input, request) => invitations.list(personOf(request)));
}
