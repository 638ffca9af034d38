// Brings hosts and records into agreement: finishes deletions, undoes what a crash interrupted, removes what nobody owns.
import type { Host } from "../../contract/host.ts";
import { sandboxStatuses } from "../../contract/sandbox-status.ts";
import type { Logger } from "../../core/log.ts";
import type { CreationStore } from "./creation-store.ts";
import type { DeleteInstances } from "./deletions.ts";
import type { Incarnations } from "./incarnations.ts";
import { createLosses } from "./losses.ts";
import { isPastRetention } from "./record.ts";
import type { OwnedInstances, SandboxStore } from "./store.ts";
import type { UpdateStore } from "./update-store.ts";

const chunk = 200;
const owningStatuses = sandboxStatuses.filter((status) => status !== "TERMINATED");

export type ReconcilerOptions = {
  host: Host;
  store: SandboxStore;
  creationStore: CreationStore;
  updateStore: UpdateStore;
  incarnations: Pick<Incarnations, "isRunning" | "isMaking">;
  deleteInstances: DeleteInstances;
  log: Logger;
};

/** Both are safe to repeat at any time, to run at once and to abandon half-way. */
export type Reconciler = {
  /** Cheap: only what is being deleted. */
  finishDeletions(signal: AbortSignal): Promise<void>;
  /** Compares every record with its host. */
  reconcile(signal: AbortSignal): Promise<void>;
};

export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { store, creationStore, incarnations, deleteInstances } = options;
  const { undoInterrupted, removeOrphans } = createLeftovers(options);
  const { compareLive, takeBackFound } = createComparison(options);

  const finishDeletions = async (signal: AbortSignal): Promise<void> => {
    for await (const owned of walk(store, ["DELETING"])) {
      // An attempt that is still letting go of its instance comes first.
      const ready = new Map(owned.filter(({ id }) => !incarnations.isRunning(id)).map((one) => [one.instanceId, one]));
      // One that a rebuild left behind has no owner any more and goes with the orphans, but rather now.
      const unfinished = [...ready.values()].flatMap(({ nextInstanceId }) => nextInstanceId ?? []);
      await deleteInstances(unfinished, signal, async () => undefined);
      await deleteInstances([...ready.keys()], signal, (instanceId) =>
        store.changeStatus(ready.get(instanceId)!.id, { from: ["DELETING"], to: "TERMINATED" }),
      );
      if (signal.aborted) return;
    }
  };

  const forgetTerminated = async (): Promise<void> => {
    const now = Date.now();
    for await (const owned of walk(store, ["TERMINATED"])) {
      for (const { id } of owned) {
        const record = await store.findById(id);
        if (record !== undefined && isPastRetention(record, now)) await store.remove(id, "TERMINATED");
      }
    }
    await creationStore.removeExpiredKeys(new Date(now).toISOString());
  };

  return {
    finishDeletions,
    async reconcile(signal) {
      const steps = [undoInterrupted, finishDeletions, removeOrphans, compareLive, takeBackFound, forgetTerminated];
      for (const step of steps) if (!signal.aborted) await step(signal);
    },
  };
}

/** What a crash left: creations and rebuilds without an end, instances without an owner. */
function createLeftovers({ host, store, updateStore, incarnations, deleteInstances, log }: ReconcilerOptions) {
  return {
    async undoInterrupted(): Promise<void> {
      // DEPLOYING without a creation under way: its answer was never given, so nobody relies on it.
      for await (const owned of walk(store, ["DEPLOYING"])) {
        for (const { id, instanceId } of owned) {
          if (incarnations.isRunning(id) || !(await store.remove(id, "DEPLOYING"))) continue;
          log.warn({ instanceId }, "an interrupted creation was undone");
        }
      }
      for (const { id, nextInstanceId } of await updateStore.listRebuilding()) {
        if (incarnations.isRunning(id) || !(await updateStore.giveUp(id, nextInstanceId))) continue;
        log.warn({ instanceId: nextInstanceId }, "an interrupted rebuild was undone; the sandbox is what it was");
      }
    },

    /** A record is written before its instance is made, so an instance without a record belongs to nobody. */
    async removeOrphans(signal: AbortSignal): Promise<void> {
      const found = host.listInstances().map(({ instanceId }) => instanceId);
      const owned = new Set<string>();
      for await (const chunk of walk(store, owningStatuses)) {
        for (const { instanceId, nextInstanceId } of chunk) {
          owned.add(instanceId);
          if (nextInstanceId !== undefined) owned.add(nextInstanceId);
        }
      }
      const orphans = found.filter((instanceId) => !owned.has(instanceId) && !incarnations.isMaking(instanceId));
      await deleteInstances(orphans, signal, async (instanceId) =>
        log.warn({ instanceId }, "an instance without a sandbox was deleted"),
      );
    },
  };
}

/** What became of the instances that sandboxes have. */
function createComparison({ host, store, incarnations, log }: ReconcilerOptions) {
  const losses = createLosses({ store, log });
  return {
    /** The failures that a host reports are kept, since they would go with the instance. */
    async compareLive(): Promise<void> {
      for await (const owned of walk(store, ["DEPLOYED"])) {
        for (const one of owned) {
          const live = host.instanceStatus(one.instanceId);
          if (live === undefined && !incarnations.isRunning(one.id)) await losses.fail(one);
          if (live !== undefined && live.errors.length > 0) await losses.keep(one, live.errors);
        }
      }
    },

    async takeBackFound(): Promise<void> {
      for await (const owned of walk(store, ["FAILED"])) {
        for (const one of owned) if (host.instanceStatus(one.instanceId) !== undefined) await losses.takeBack(one);
      }
    },
  };
}

/** Every sandbox in one of the statuses, in chunks; what changes during the walk is seen or not, and the next pass sees it. */
async function* walk(
  store: SandboxStore,
  statuses: Parameters<SandboxStore["listOwned"]>[0],
): AsyncGenerator<OwnedInstances[]> {
  let after = "";
  for (;;) {
    const owned = await store.listOwned(statuses, after, chunk);
    if (owned.length > 0) yield owned;
    if (owned.length < chunk) return;
    after = owned.at(-1)!.id;
  }
}
