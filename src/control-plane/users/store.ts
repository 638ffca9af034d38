// Queries about people and where they belong.
import type { Insertable, Updateable } from "kysely";
import type { Role } from "../auth/scopes.ts";
import type { Database, Queries } from "../db/database.ts";
import { lockWorkspace } from "../db/lock-workspace.ts";
import type { UsersTable } from "../db/tables/users.ts";

export type UserStore = ReturnType<typeof createUserStore>;
export type Membership = { workspaceId: string; workspace: string; role: Role };

const listMax = 1_000;

type NewMembership = { workspace: string; role: Role };

export function createUserStore(database: Database) {
  const { kysely } = database;
  const change = database.transactDurably;
  return {
    find: (column: "id" | "email" | "name", value: string): Promise<UsersTable | undefined> =>
      kysely.selectFrom("users").selectAll().where(column, "=", value).orderBy("created_at").executeTakeFirst(),
    list: (): Promise<UsersTable[]> =>
      kysely.selectFrom("users").selectAll().orderBy("created_at").orderBy("id").limit(listMax).execute(),
    listMemberships: (userId: string): Promise<Membership[]> =>
      kysely
        .selectFrom("members as m")
        .innerJoin("workspaces as w", "w.id", "m.workspace_id")
        .select(["w.id as workspaceId", "w.name as workspace", "m.role"])
        .where("m.user_id", "=", userId)
        .orderBy("w.name")
        .execute(),
    /** Says what is in the way, if anything is. */
    insert: (row: Insertable<UsersTable>, membership: NewMembership | undefined) =>
      change((queries) => insertUser(queries, row, membership)),
    update: (id: string, changes: Updateable<UsersTable>) =>
      change((queries) => queries.updateTable("users").set(changes).where("id", "=", id).execute()),
    /** False when somebody else has the address. */
    changeEmail: (id: string, changes: { email: string; updated_at: string }) =>
      change(async (queries): Promise<boolean> => {
        const other = await queries
          .selectFrom("users")
          .select("id")
          .where("email", "=", changes.email)
          .where("id", "!=", id)
          .executeTakeFirst();
        if (other !== undefined) return false;
        await queries.updateTable("users").set(changes).where("id", "=", id).execute();
        return true;
      }),
    /** Undefined when done, else the workspaces that would be left without an administrator. */
    remove: (id: string) =>
      change(async (queries) => {
        await lockWorkspacesOf(queries, id);
        const orphaned = await findOrphaned(queries, id);
        if (orphaned.length > 0) return orphaned;
        await queries.deleteFrom("members").where("user_id", "=", id).execute();
        await queries.deleteFrom("api_keys").where("user_id", "=", id).execute();
        await queries.deleteFrom("users").where("id", "=", id).execute();
        return undefined;
      }),
  };
}

async function insertUser(
  queries: Queries,
  row: Insertable<UsersTable>,
  membership: NewMembership | undefined,
): Promise<"inserted" | "taken" | "no workspace"> {
  const taken = await queries
    .selectFrom("users")
    .select("id")
    .where((where) => where.or([where("email", "=", row.email ?? ""), where("name", "=", row.name)]))
    .executeTakeFirst();
  if (taken !== undefined) return "taken";
  const workspace =
    membership &&
    (await queries.selectFrom("workspaces").select("id").where("name", "=", membership.workspace).executeTakeFirst());
  if (membership !== undefined && workspace === undefined) return "no workspace";
  const inserted = await queries
    .insertInto("users")
    .values(row)
    .onConflict((conflict) => conflict.doNothing())
    .returning("id")
    .executeTakeFirst();
  // Somebody else took the address at this moment.
  if (inserted === undefined) return "taken";
  if (membership === undefined || workspace === undefined) return "inserted";
  await lockWorkspace(queries, workspace.id);
  await queries
    .insertInto("members")
    .values({ workspace_id: workspace.id, user_id: row.id, role: membership.role, created_at: row.created_at })
    .execute();
  return "inserted";
}

/** Somebody may be removing the other administrator at this moment. */
async function lockWorkspacesOf(queries: Queries, userId: string): Promise<void> {
  await queries
    .updateTable("workspaces")
    .set((set) => ({ created_at: set.ref("created_at") }))
    .where("id", "in", (select) => select.selectFrom("members").select("workspace_id").where("user_id", "=", userId))
    .execute();
}

async function findOrphaned(queries: Queries, userId: string): Promise<string[]> {
  const rows = await queries
    .selectFrom("members as m")
    .innerJoin("workspaces as w", "w.id", "m.workspace_id")
    .select("w.name")
    .where("m.user_id", "=", userId)
    .where("m.role", "=", "admin")
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom("members as o")
            .select("o.user_id")
            .whereRef("o.workspace_id", "=", "m.workspace_id")
            .where("o.user_id", "!=", userId)
            .where("o.role", "=", "admin"),
        ),
      ),
    )
    .orderBy("w.name")
    .execute();
  return rows.map(({ name }) => name);
}
