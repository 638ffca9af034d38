// Who belongs to a workspace, for its administrators: members, their roles, invitations by email; one administrator is always left.
import type { PendingInvitation, WorkspaceUser } from "../../contract/workspace-user.ts";
import { AppError } from "../../core/errors.ts";
import { type Caller, requireAllOf } from "../auth/caller.ts";
import type { Role } from "../auth/scopes.ts";
import type { InvitationsTable } from "../db/tables/invitations.ts";
import { normalizeEmail } from "../users/service.ts";
import type { InvitationStore } from "./invitation-store.ts";
import { invitationsMax, presentInvitation } from "./invitations.ts";
import type { MemberRow, WorkspaceUserStore } from "./store.ts";

export const membersMax = 1_000;
const invitationTtlMs = 7 * 86_400_000;

export type WorkspaceUserService = ReturnType<typeof createWorkspaceUserService>;

export type WorkspaceUserServiceOptions = { store: WorkspaceUserStore; invitations: InvitationStore };

export function createWorkspaceUserService({ store, invitations }: WorkspaceUserServiceOptions) {
  return {
    async list({ workspaceId }: Caller): Promise<WorkspaceUser[]> {
      const members = await store.listMembers(workspaceId, membersMax);
      const invited = await invitations.list(workspaceId, invitationsMax);
      return [...members.map(presentMember), ...invited.map(presentInvited)];
    },
    async invite(caller: Caller, input: { email: string; role?: Role }): Promise<PendingInvitation> {
      const { role = "member" } = input;
      requireAdminToGive(role, caller);
      const email = normalizeEmail(input.email);
      if ((await store.findMember(caller.workspaceId, email)) !== undefined) {
        throw new AppError("already_exists", "The person is a member of the workspace already.");
      }
      if ((await invitations.list(caller.workspaceId, invitationsMax)).length >= invitationsMax) {
        throw new AppError("conflict", `A workspace has at most ${invitationsMax} open invitations.`);
      }
      const now = new Date();
      const row = await invitations.upsert({
        workspace_id: caller.workspaceId,
        email,
        role,
        invited_by: caller.principalId,
        created_by: caller.principalName,
        created_at: now.toISOString(),
        updated_at: now.toISOString(),
        expires_at: new Date(now.getTime() + invitationTtlMs).toISOString(),
      });
      return presentInvitation({ ...row, workspace: caller.workspace });
    },
    async changeRole(caller: Caller, subOrEmail: string, role: Role): Promise<WorkspaceUser> {
      requireAdminToGive(role, caller);
      const { workspaceId } = caller;
      const member = await store.findMember(workspaceId, subOrEmail);
      if (member === undefined) {
        const at = new Date().toISOString();
        const invitation = await invitations.changeRole(workspaceId, normalizeEmail(subOrEmail), role, at);
        return presentInvited(invitation ?? missing());
      }
      const outcome = await store.changeRole(workspaceId, member.id, role);
      if (outcome === "last admin") throw lastAdmin();
      return presentMember({ ...(outcome === undefined ? missing() : member), role });
    },
    /** Resolves once no credential of the person is good for the workspace any more. */
    async remove({ workspaceId }: Caller, subOrEmail: string): Promise<WorkspaceUser> {
      const member = await store.findMember(workspaceId, subOrEmail);
      if (member === undefined) {
        return presentInvited((await invitations.remove(workspaceId, normalizeEmail(subOrEmail))) ?? missing());
      }
      const outcome = await store.removeMember(workspaceId, member.id);
      if (outcome === "last admin") throw lastAdmin();
      return presentMember(outcome === undefined ? missing() : member);
    },
    async leave({ workspaceId, principalId }: Caller): Promise<void> {
      const outcome = await store.removeMember(workspaceId, principalId);
      if (outcome === "last admin") throw lastAdmin();
      if (outcome === undefined) missing();
    },
  };
}

/** What the scopes for people are for is members; an administrator is made only by a credential that allows everything. */
function requireAdminToGive(role: Role, caller: Caller): void {
  if (role === "admin") requireAllOf(role, caller);
}

function missing(): never {
  throw new AppError("not_found", "There is no such user in this workspace.");
}

function lastAdmin(): AppError {
  return new AppError(
    "conflict",
    "The workspace would be left without an administrator: make another member one first.",
  );
}

function presentMember({ id, email, given_name, family_name, role }: MemberRow): WorkspaceUser {
  return {
    sub: id,
    email: email ?? undefined,
    // The operator of the installation vouches for the addresses of its users.
    email_verified: email !== null,
    given_name: given_name ?? undefined,
    family_name: family_name ?? undefined,
    role,
    accepted: true,
    expired: false,
  };
}

function presentInvited({ email, role, expires_at }: InvitationsTable): WorkspaceUser {
  return { email, email_verified: false, role, accepted: false, expired: Date.parse(expires_at) <= Date.now() };
}
