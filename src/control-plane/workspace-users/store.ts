// Queries about the members of a workspace.
import type { Role } from "../auth/scopes.ts";
import type { Database, Queries } from "../db/database.ts";

export type MemberRow = {
  id: string;
  email: string | null;
  given_name: string | null;
  family_name: string | null;
  role: Role;
};

/** What became of a change that would have left the workspace without an administrator, or of one to nobody. */
export type Outcome<Row> = Row | "last admin" | undefined;

export type WorkspaceUserStore = ReturnType<typeof createWorkspaceUserStore>;

export function createWorkspaceUserStore(database: Database) {
  const { kysely } = database;
  const change = database.transactDurably;
  const member = (queries: Queries, workspaceId: string) =>
    queries
      .selectFrom("members as m")
      .innerJoin("users as u", "u.id", "m.user_id")
      .select(["u.id", "u.email", "u.given_name", "u.family_name", "m.role"])
      .where("m.workspace_id", "=", workspaceId);
  return {
    listMembers: (workspaceId: string, limit: number): Promise<MemberRow[]> =>
      member(kysely, workspaceId).orderBy("m.created_at").orderBy("u.id").limit(limit).execute(),
    findMember: (workspaceId: string, subOrEmail: string): Promise<MemberRow | undefined> =>
      member(kysely, workspaceId)
        .where((where) => where.or([where("u.id", "=", subOrEmail), where("u.email", "=", subOrEmail.toLowerCase())]))
        .executeTakeFirst(),
    changeRole: (workspaceId: string, userId: string, role: Role): Promise<Outcome<"changed">> =>
      change(async (queries) => {
        if (role !== "admin" && !(await hasOtherAdmin(queries, workspaceId, userId))) return "last admin";
        const row = await queries
          .updateTable("members")
          .set({ role })
          .where("workspace_id", "=", workspaceId)
          .where("user_id", "=", userId)
          .returning("user_id")
          .executeTakeFirst();
        return row && "changed";
      }),
    removeMember: (workspaceId: string, userId: string): Promise<Outcome<"removed">> =>
      change(async (queries) => {
        if (!(await hasOtherAdmin(queries, workspaceId, userId))) return "last admin";
        const row = await queries
          .deleteFrom("members")
          .where("workspace_id", "=", workspaceId)
          .where("user_id", "=", userId)
          .returning("user_id")
          .executeTakeFirst();
        return row && "removed";
      }),
  };
}

/** Locks the workspace first: two administrators who remove each other at once must not both succeed. */
async function hasOtherAdmin(queries: Queries, workspaceId: string, userId: string): Promise<boolean> {
  await queries
    .updateTable("workspaces")
    .set((set) => ({ created_at: set.ref("created_at") }))
    .where("id", "=", workspaceId)
    .execute();
  const other = await queries
    .selectFrom("members as m")
    .innerJoin("users as u", "u.id", "m.user_id")
    .select("m.user_id")
    .where("m.workspace_id", "=", workspaceId)
    .where("m.user_id", "!=", userId)
    .where("m.role", "=", "admin")
    .where("u.disabled_at", "is", null)
    .executeTakeFirst();
  return other !== undefined;
}
