// Sandboxes as JSON text, remembered until their record changes: getting one is what clients do most.
import type { Sandbox } from "../../contract/sandbox.ts";
import { BoundedMap } from "../../core/bounded-map.ts";
import { type Eventual, proceed } from "../../core/eventual.ts";
import type { Caller } from "../auth/caller.ts";
import type { Presenter } from "./present.ts";
import { isPastRetention, type SandboxRecord } from "./record.ts";
import type { SandboxStore } from "./store.ts";

const viewsMax = 1_000;
/** Longer texts are not remembered. */
const viewMaxLength = 16_384;

/** `open` lacks the closing brace: the part that changes by itself follows. */
type View = { revision: number; record: SandboxRecord; open: string };

export type ViewsOptions = { store: SandboxStore; presenter: Presenter };

export type SandboxViews = ReturnType<typeof createSandboxViews>;

export function createSandboxViews({ store, presenter }: ViewsOptions) {
  const views = new BoundedMap<string, View>(viewsMax);

  const render = async (
    record: SandboxRecord,
    caller: Caller,
    serialize: (sandbox: Sandbox) => string,
  ): Promise<View> => {
    const sandbox = { ...presenter.presentRecord(record, caller), events: await store.findEvents(record.id) };
    const view = { revision: record.revision, record, open: serialize(sandbox).slice(0, -1) };
    if (view.open.length <= viewMaxLength) views.set(record.id, view);
    return view;
  };

  const renderNamed = async (
    caller: Caller,
    name: string,
    serialize: (sandbox: Sandbox) => string,
  ): Promise<View | undefined> => {
    const record = await store.findByName(caller.workspaceId, name);
    return record && render(record, caller, serialize);
  };

  const complete = (view: View | undefined): string | undefined => {
    if (view === undefined || isPastRetention(view.record, Date.now())) return undefined;
    return `${view.open},${JSON.stringify(presenter.presentLive(view.record)).slice(1)}`;
  };

  return {
    /** The sandbox of that name with its secrets masked, or undefined. Store and host are asked each time. */
    find(caller: Caller, name: string, serialize: (sandbox: Sandbox) => string): Eventual<string | undefined> {
      return proceed(store.findRevision(caller.workspaceId, name), (found) => {
        if (found === undefined) return undefined;
        const view = views.get(found.id);
        if (view?.revision === found.revision) return complete(view);
        // By name again: the pages of the database that lead there have just been read, those that lead to an id have not.
        return renderNamed(caller, name, serialize).then(complete);
      });
    },
  };
}
