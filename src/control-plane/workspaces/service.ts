// Workspaces: listed for whoever belongs to them, created by people, changed and deleted by their administrators.
import type { Workspace, WorkspaceAvailability, WorkspaceChanges, WorkspaceInput } from "../../contract/workspace.ts";
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import type { Caller, Principal } from "../auth/caller.ts";
import type { WorkspacesTable } from "../db/tables/workspaces.ts";
import { forbiddenReason, reasonMessages } from "./names.ts";
import type { WorkspaceStore } from "./store.ts";

/** How many of a kind a workspace has, by the kind's name on the wire. */
export type ResourceCounters = Readonly<Record<string, (workspaceId: string) => Promise<number>>>;

export type WorkspaceServiceOptions = { store: WorkspaceStore; counters: ResourceCounters; region: string };
export type WorkspaceService = ReturnType<typeof createWorkspaceService>;

/** Workspaces that one person can belong to. */
export const workspacesPerUserMax = 200;
/** These go with the workspace; anything else in it has to be deleted first. */
const goesAlong = new Set(["serviceaccounts"]);

export function createWorkspaceService({ store, counters, region }: WorkspaceServiceOptions) {
  const present = (row: WorkspacesTable): Workspace => presentIn(region, row);
  const find = async (id: string): Promise<WorkspacesTable> => (await store.find(id)) ?? missing();
  const count = async (workspaceId: string): Promise<Record<string, number>> => {
    const counted = Object.entries(counters).map(async ([kind, of]) => [kind, await of(workspaceId)] as const);
    return Object.fromEntries(await Promise.all(counted));
  };
  const checkName = async (name: string): Promise<WorkspaceAvailability> => {
    const reason = forbiddenReason(name) ?? ((await store.findByName(name)) === undefined ? undefined : "taken");
    return reason === undefined ? { available: true } : { available: false, reason, message: reasonMessages[reason] };
  };
  return {
    checkName,
    async list({ kind, principalId, home }: Principal): Promise<Workspace[]> {
      if (kind === "user") return (await store.listOfUser(principalId, workspacesPerUserMax)).map(present);
      return home === undefined ? [] : [present(await find(home.workspaceId))];
    },
    async get({ workspaceId }: Caller, countResources: boolean): Promise<Workspace> {
      const workspace = present(await find(workspaceId));
      return countResources ? { ...workspace, resourceCounts: await count(workspaceId) } : workspace;
    },
    getById: async (workspaceId: string): Promise<Workspace> => present(await find(workspaceId)),
    async create(person: Principal, input: WorkspaceInput): Promise<Workspace> {
      const { reason, message } = await checkName(input.name);
      if (reason !== undefined && reason !== "taken") throw new AppError("invalid_request", `name: ${message}`);
      const belongsTo = await store.listOfUser(person.principalId, workspacesPerUserMax);
      if (belongsTo.length >= workspacesPerUserMax) {
        throw new AppError("conflict", `A person belongs to at most ${workspacesPerUserMax} workspaces.`);
      }
      const now = new Date().toISOString();
      const row: WorkspacesTable = {
        id: randomToken(9),
        name: input.name,
        created_at: now,
        updated_at: now,
        created_by: person.principalName,
        updated_by: person.principalName,
        deleted_at: null,
        ...settingsOf(input),
      };
      if (!(await store.insert(row, person.principalId))) throw new AppError("already_exists", reasonMessages.taken);
      return present(row);
    },
    async update({ workspaceId, workspace, principalName }: Caller, changes: WorkspaceChanges): Promise<Workspace> {
      if (changes.name !== undefined && changes.name !== workspace) {
        throw new AppError("invalid_request", "name cannot be changed");
      }
      const row = await store.update(workspaceId, {
        ...settingsOf(changes),
        updated_at: new Date().toISOString(),
        updated_by: principalName,
      });
      return present(row ?? missing());
    },
    async remove({ workspaceId }: Caller): Promise<Workspace> {
      const row = await find(workspaceId);
      const left = Object.entries(await count(workspaceId)).filter(([kind, many]) => many > 0 && !goesAlong.has(kind));
      const listed = left.map(([kind, many]) => `${many} ${kind}`).join(", ");
      if (listed !== "" || !(await store.remove(workspaceId, new Date().toISOString()))) {
        throw new AppError(
          "conflict",
          `The workspace is not empty: it has ${listed || "sandboxes"}. Delete these first.`,
        );
      }
      return present(row);
    },
  };
}

function presentIn(region: string, row: WorkspacesTable): Workspace {
  return {
    id: row.id,
    name: row.name,
    displayName: row.display_name ?? undefined,
    labels: row.labels === null ? undefined : (JSON.parse(row.labels) as Record<string, string>),
    region,
    status: "ready",
    createdAt: row.created_at,
    updatedAt: row.updated_at ?? row.created_at,
    createdBy: row.created_by ?? undefined,
    updatedBy: row.updated_by ?? row.created_by ?? undefined,
  };
}

function settingsOf({ displayName, labels }: WorkspaceChanges): Pick<WorkspacesTable, "display_name" | "labels"> {
  return { display_name: displayName ?? null, labels: labels === undefined ? null : JSON.stringify(labels) };
}

function missing(): never {
  throw new AppError("not_found", "There is no such workspace.");
}
