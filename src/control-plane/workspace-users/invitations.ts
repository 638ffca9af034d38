// Invitations as the invited person sees them: listed, accepted, declined.
import type { PendingInvitation } from "../../contract/workspace-user.ts";
import { AppError } from "../../core/errors.ts";
import type { Principal } from "../auth/caller.ts";
import type { Role } from "../auth/scopes.ts";
import type { UserService } from "../users/service.ts";
import type { InvitationRow, InvitationStore } from "./invitation-store.ts";

/** Of one workspace, and of one person. */
export const invitationsMax = 200;

export type Invitations = ReturnType<typeof createInvitations>;

export function createInvitations({ store, users }: { store: InvitationStore; users: UserService }) {
  const emailOf = async (person: Principal): Promise<string> => {
    const user = await users.findById(person.principalId);
    return user?.email ?? "";
  };
  const findOwn = async (person: Principal, workspace: string): Promise<InvitationRow> => {
    const email = await emailOf(person);
    const invitations = await store.listOf(email, new Date().toISOString(), invitationsMax);
    const found = invitations.find((invitation) => invitation.workspace === workspace);
    if (found === undefined) throw new AppError("not_found", "There is no such invitation.");
    return found;
  };
  return {
    async list(person: Principal): Promise<PendingInvitation[]> {
      const email = await emailOf(person);
      return (await store.listOf(email, new Date().toISOString(), invitationsMax)).map(presentInvitation);
    },
    /** Resolves to the id of the workspace that the person belongs to now. */
    async accept(person: Principal, workspace: string): Promise<{ workspaceId: string; role: Role }> {
      const invitation = await findOwn(person, workspace);
      const { workspace: _, ...row } = invitation;
      const accepted = await store.accept(row, person.principalId, new Date().toISOString());
      if (accepted === undefined) throw new AppError("not_found", "There is no such invitation.");
      return { workspaceId: accepted.workspace_id, role: accepted.role };
    },
    async decline(person: Principal, workspace: string): Promise<void> {
      const invitation = await findOwn(person, workspace);
      await store.remove(invitation.workspace_id, invitation.email);
    },
  };
}

export function presentInvitation(row: InvitationRow): PendingInvitation {
  return {
    email: row.email,
    role: row.role,
    workspace: row.workspace,
    invitedBy: row.invited_by,
    expiresAt: row.expires_at,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    createdBy: row.created_by,
    updatedBy: row.created_by,
  };
}
