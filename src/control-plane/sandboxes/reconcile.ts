// Brings hosts and records into agreement: finishes deletions, undoes creations that a crash interrupted, removes what nobody owns.
import type { Host } from "../../contract/host.ts";
import { sandboxStatuses } from "../../contract/sandbox-status.ts";
import type { Logger } from "../../core/log.ts";
import type { CreationStore } from "./creation-store.ts";
import { createDeletions } from "./deletions.ts";
import { createLosses } from "./losses.ts";
import { isPastRetention } from "./record.ts";
import type { SandboxStore } from "./store.ts";

const chunk = 200;
const owningStatuses = sandboxStatuses.filter((status) => status !== "TERMINATED");

export type ReconcilerOptions = {
  host: Host;
  store: SandboxStore;
  creationStore: CreationStore;
  creations: { isRunning(sandboxId: string): boolean };
  log: Logger;
};

/** Both are safe to repeat at any time, to run at once and to abandon half-way. */
export type Reconciler = {
  /** Cheap: only what is being deleted. */
  finishDeletions(signal: AbortSignal): Promise<void>;
  /** Compares every record with its host. */
  reconcile(signal: AbortSignal): Promise<void>;
};

export function createReconciler({ host, store, creationStore, creations, log }: ReconcilerOptions): Reconciler {
  const deleteInstances = createDeletions({ host, log });
  const losses = createLosses({ store, log });

  const finishDeletions = async (signal: AbortSignal): Promise<void> => {
    for await (const ids of walk(store, ["DELETING"])) {
      // A creation that is still letting go of its instance comes first.
      const ready = ids.filter((id) => !creations.isRunning(id));
      await deleteInstances(ready, signal, (id) => store.changeStatus(id, { from: ["DELETING"], to: "TERMINATED" }));
      if (signal.aborted) return;
    }
  };

  /** DEPLOYING without a creation under way: its answer was never given, so nobody relies on it. */
  const undoInterrupted = async (): Promise<void> => {
    for await (const ids of walk(store, ["DEPLOYING"])) {
      for (const id of ids) {
        if (creations.isRunning(id) || !(await store.remove(id, "DEPLOYING"))) continue;
        log.warn({ instanceId: id }, "an interrupted creation was undone");
      }
    }
  };

  /** A record is written before its instance is made, so an instance without a record belongs to nobody. */
  const removeOrphans = async (signal: AbortSignal): Promise<void> => {
    const found = host.listInstances().map(({ instanceId }) => instanceId);
    const owned = new Set<string>();
    for await (const ids of walk(store, owningStatuses)) for (const id of ids) owned.add(id);
    const orphans = found.filter((id) => !owned.has(id) && !creations.isRunning(id));
    await deleteInstances(orphans, signal, async (id) =>
      log.warn({ instanceId: id }, "an instance without a sandbox was deleted"),
    );
  };

  const failLost = async (): Promise<void> => {
    for await (const ids of walk(store, ["DEPLOYED"])) {
      for (const id of ids) {
        if (host.instanceStatus(id) === undefined && !creations.isRunning(id)) await losses.fail(id);
      }
    }
  };

  const takeBackFound = async (): Promise<void> => {
    for await (const ids of walk(store, ["FAILED"])) {
      for (const id of ids) if (host.instanceStatus(id) !== undefined) await losses.takeBack(id);
    }
  };

  const forgetTerminated = async (): Promise<void> => {
    const now = Date.now();
    for await (const ids of walk(store, ["TERMINATED"])) {
      for (const id of ids) {
        const record = await store.findById(id);
        if (record !== undefined && isPastRetention(record, now)) await store.remove(id, "TERMINATED");
      }
    }
    await creationStore.removeExpiredKeys(new Date(now).toISOString());
  };

  return {
    finishDeletions,
    async reconcile(signal) {
      const steps = [undoInterrupted, finishDeletions, removeOrphans, failLost, takeBackFound, forgetTerminated];
      for (const step of steps) if (!signal.aborted) await step(signal);
    },
  };
}

/** Every id in one of the statuses, in chunks; what changes during the walk is seen or not, and the next pass sees it. */
async function* walk(store: SandboxStore, statuses: Parameters<SandboxStore["listIds"]>[0]): AsyncGenerator<string[]> {
  let after = "";
  for (;;) {
    const ids = await store.listIds(statuses, after, chunk);
    if (ids.length > 0) yield ids;
    if (ids.length < chunk) return;
    after = ids.at(-1)!;
  }
}
