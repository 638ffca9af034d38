// Queries about open invitations into workspaces.
import type { Insertable } from "kysely";
import type { Role } from "../auth/scopes.ts";
import type { Database, Queries } from "../db/database.ts";
import { lockWorkspace } from "../db/lock-workspace.ts";
import type { InvitationsTable } from "../db/tables/invitations.ts";

export type InvitationRow = InvitationsTable & { workspace: string };

export type InvitationStore = ReturnType<typeof createInvitationStore>;

export function createInvitationStore(database: Database) {
  const { kysely } = database;
  const change = database.transactDurably;
  const invitations = () =>
    kysely
      .selectFrom("invitations as i")
      .innerJoin("workspaces as w", "w.id", "i.workspace_id")
      .selectAll("i")
      .select("w.name as workspace")
      .where("w.deleted_at", "is", null);
  return {
    list: (workspaceId: string, limit: number): Promise<InvitationRow[]> =>
      invitations().where("i.workspace_id", "=", workspaceId).orderBy("i.created_at").limit(limit).execute(),
    listOf: (email: string, now: string, limit: number): Promise<InvitationRow[]> =>
      invitations()
        .where("i.email", "=", email)
        .where("i.expires_at", ">", now)
        .orderBy("i.created_at")
        .limit(limit)
        .execute(),
    upsert: (row: Insertable<InvitationsTable>) =>
      change(async (queries) => {
        await lockWorkspace(queries, row.workspace_id);
        return queries
          .insertInto("invitations")
          .values(row)
          .onConflict((conflict) =>
            conflict.columns(["workspace_id", "email"]).doUpdateSet({
              role: row.role,
              invited_by: row.invited_by,
              updated_at: row.updated_at,
              expires_at: row.expires_at,
            }),
          )
          .returningAll()
          .executeTakeFirstOrThrow();
      }),
    changeRole: (workspaceId: string, email: string, role: Role, at: string) =>
      change((queries) =>
        queries
          .updateTable("invitations")
          .set({ role, updated_at: at })
          .where("workspace_id", "=", workspaceId)
          .where("email", "=", email)
          .returningAll()
          .executeTakeFirst(),
      ),
    remove: (workspaceId: string, email: string) => change((queries) => takeInvitation(queries, workspaceId, email)),
    /** Turns the invitation into a membership. */
    accept: (invitation: InvitationsTable, userId: string, at: string) =>
      change(async (queries) => {
        await lockWorkspace(queries, invitation.workspace_id);
        const taken = await takeInvitation(queries, invitation.workspace_id, invitation.email);
        if (taken === undefined || taken.expires_at <= at) return undefined;
        await queries
          .insertInto("members")
          .values({ workspace_id: taken.workspace_id, user_id: userId, role: taken.role, created_at: at })
          .onConflict((conflict) => conflict.columns(["workspace_id", "user_id"]).doNothing())
          .execute();
        return taken;
      }),
  };
}

function takeInvitation(queries: Queries, workspaceId: string, email: string): Promise<InvitationsTable | undefined> {
  return queries
    .deleteFrom("invitations")
    .where("workspace_id", "=", workspaceId)
    .where("email", "=", email)
    .returningAll()
    .executeTakeFirst();
}
