// Rules for reading, updating and deleting sandboxes.
import type { Sandbox } from "../../contract/sandbox.ts";
import { allows, statusesThatAllow } from "../../contract/sandbox-status.ts";
import { AppError } from "../../core/errors.ts";
import { type Eventual, proceed } from "../../core/eventual.ts";
import { isExternalId, isName } from "../../core/names.ts";
import type { Caller } from "../auth/caller.ts";
import type { Incarnations } from "./incarnations.ts";
import type { Presenter } from "./present.ts";
import { isPastRetention, type SandboxRecord } from "./record.ts";
import type { SandboxStore } from "./store.ts";
import type { UpdateRequest, Updates } from "./updates.ts";
import type { SandboxViews } from "./views.ts";

export type SandboxServiceOptions = {
  store: SandboxStore;
  incarnations: Incarnations;
  updates: Updates;
  presenter: Presenter;
  views: SandboxViews;
  poke: () => void;
};

export type SandboxService = ReturnType<typeof createSandboxService>;

export function createSandboxService({ store, incarnations, updates, presenter, views, poke }: SandboxServiceOptions) {
  const getRecord = async (caller: Caller, name: string): Promise<SandboxRecord> => {
    const record = isName(name) ? await store.findByName(caller.workspaceId, name) : undefined;
    if (record === undefined || isPastRetention(record, Date.now())) {
      throw notFound();
    }
    return record;
  };
  return {
    /** The sandbox that has the name, else the last one that had it while its record is kept. */
    getText(caller: Caller, name: string, serialize: (sandbox: Sandbox) => string): Eventual<string> {
      if (!isName(name)) throw notFound();
      return proceed(views.find(caller, name, serialize), (text) => {
        if (text === undefined) throw notFound();
        return text;
      });
    },

    /** The id of the record that holds the name. */
    async getId(caller: Caller, name: string): Promise<string> {
      const { id, status } = await getRecord(caller, name);
      if (!allows(status, "hold_name")) throw notFound();
      return id;
    },

    async getWithSecrets(caller: Caller, name: string): Promise<Sandbox> {
      requireAdmin(caller);
      const record = await getRecord(caller, name);
      return presenter.present(record, caller, await store.findEvents(record.id), true);
    },

    async getByExternalId(caller: Caller, externalId: string, showSecrets: boolean): Promise<Sandbox> {
      if (showSecrets) requireAdmin(caller);
      const record = isExternalId(externalId)
        ? await store.findByExternalId(caller.workspaceId, externalId)
        : undefined;
      if (record === undefined) throw new AppError("not_found", "There is no sandbox with this external id.");
      return presenter.present(record, caller, await store.findEvents(record.id), showSecrets);
    },

    async update(request: UpdateRequest): Promise<Sandbox> {
      return updates.update(await getRecord(request.caller, request.name), request);
    },

    /** Whose environment refers to the connection, e.g. `the sandbox dev`, or undefined. */
    async findUser(workspaceId: string, connection: string): Promise<string | undefined> {
      const name = await store.findUserOfConnection(workspaceId, connection);
      return name === undefined ? undefined : `the sandbox ${name}`;
    },

    /** Answers once the deletion is certain: the name is free and no request reaches it. The reconciler removes the rest. */
    async delete(caller: Caller, name: string): Promise<Sandbox> {
      const before = await getRecord(caller, name);
      const { id, status } = before;
      if (!allows(status, "delete")) throw new AppError("not_found", "The sandbox is gone already.");
      const from = statusesThatAllow("delete").filter((each) => each !== "DELETING");
      // What its host has reported goes with the instance.
      const { errors } = presenter.presentLive(before);
      const changed = await store.changeStatus(id, { from, to: "DELETING", by: caller.principalName, errors });
      if (changed) incarnations.abort(id);
      poke();
      const record = await store.findById(id);
      if (record === undefined) throw new AppError("not_found", "The sandbox is gone already.");
      return presenter.present(record, caller, await store.findEvents(id));
    },
  };
}

function requireAdmin({ role }: Caller): void {
  if (role === "admin") return;
  throw new AppError("forbidden", "Only administrators of the workspace may see secret values.");
}

function notFound(): AppError {
  return new AppError("not_found", "There is no sandbox of this name.");
}
