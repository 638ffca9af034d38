// The HTTP operations on workspaces, and on belonging to one.
import type { FastifyInstance } from "fastify";
import { implement } from "../../contract/implement.ts";
import {
  acceptInvitation,
  checkWorkspaceAvailability,
  createWorkspace,
  declineInvitation,
  deleteWorkspace,
  getWorkspace,
  leaveWorkspace,
  listWorkspaces,
  updateWorkspace,
} from "../../contract/workspace.ts";
import { callerOf } from "../app.ts";
import { personOf, principalOf } from "../auth/caller.ts";
import type { Invitations } from "../workspace-users/invitations.ts";
import type { WorkspaceUserService } from "../workspace-users/service.ts";
import type { WorkspaceService } from "./service.ts";

export type WorkspaceRoutes = {
  workspaces: WorkspaceService;
  workspaceUsers: WorkspaceUserService;
  invitations: Invitations;
};

export function mountWorkspaces(
  app: FastifyInstance,
  { workspaces, workspaceUsers, invitations }: WorkspaceRoutes,
): void {
  implement(app, listWorkspaces, (_input, request) => workspaces.list(principalOf(request)));
  implement(app, createWorkspace, async ({ body }, request) => {
    const created = await workspaces.create(personOf(request), body);
    request.audited = { workspace_id: created.id, workspace: created.name, resource: created.name };
    return created;
  });
  implement(app, checkWorkspaceAvailability, async ({ body, query }) => {
    const availability = await workspaces.checkName(body.name);
    return query.withReason === true ? availability : availability.available;
  });
  implement(app, getWorkspace, ({ query }, request) =>
    workspaces.get(callerOf(request), query.countResources ?? false),
  );
  implement(app, updateWorkspace, ({ body }, request) => workspaces.update(callerOf(request), body));
  implement(app, deleteWorkspace, (_input, request) => workspaces.remove(callerOf(request)));
  implement(app, leaveWorkspace, async (_input, request) => {
    personOf(request);
    const left = await workspaces.get(callerOf(request), false);
    await workspaceUsers.leave(callerOf(request));
    return left;
  });
  implement(app, acceptInvitation, async ({ params }, request) => {
    const { workspaceId } = await invitations.accept(personOf(request), params.workspaceName);
    request.audited = { workspace_id: workspaceId, workspace: params.workspaceName };
    return workspaces.getById(workspaceId);
  });
  implement(app, declineInvitation, async ({ params }, request) => {
    await invitations.decline(personOf(request), params.workspaceName);
    return { message: "The invitation is declined." };
  });
}
