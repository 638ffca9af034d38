// Brings hosts and records into agreement: finishes deletions, undoes what a crash interrupted, removes what nobody owns.
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Host } from "../../contract/host.ts";
import type { Logger } from "../../core/log.ts";
import type { AgreementStore, Owner } from "./agreement-store.ts";
import type { CreationStore } from "./creation-store.ts";
import type { DeleteInstances } from "./deletions.ts";
import type { Incarnations } from "./incarnations.ts";
import { createLosses } from "./losses.ts";
import type { RestoreGuard } from "./restore-guard.ts";
import type { OwnedInstances, SandboxStore } from "./store.ts";
import type { UpdateStore } from "./update-store.ts";

const chunk = 200;

export type ReconcilerOptions = {
  host: Host;
  store: SandboxStore;
  creationStore: CreationStore;
  updateStore: UpdateStore;
  agreementStore: AgreementStore;
  restoreGuard: RestoreGuard;
  incarnations: Pick<Incarnations, "isRunning" | "isNeeded">;
  deleteInstances: DeleteInstances;
  log: Logger;
};

/** Both are safe to repeat at any time, to run at once and to abandon half-way. */
export type Reconciler = {
  /** Cheap: only what is being deleted. */
  finishDeletions(signal: AbortSignal): Promise<void>;
  /** Compares what the host has with its records, and records without an instance with the host. */
  reconcile(signal: AbortSignal): Promise<void>;
};

export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { store, creationStore, agreementStore, incarnations, deleteInstances } = options;
  const compareInstances = createComparison(options);
  const findLost = createLostSearch(options);

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

  const forgetTerminated = async (signal: AbortSignal): Promise<void> => {
    const now = new Date().toISOString();
    while (!signal.aborted && (await agreementStore.forget(now)) > 0);
    await creationStore.removeExpiredKeys(now);
  };

  const compare = async (signal: AbortSignal): Promise<void> => findLost(await compareInstances(signal), signal);

  return {
    finishDeletions,
    async reconcile(signal) {
      const steps = [() => undoInterrupted(options), finishDeletions, compare, forgetTerminated];
      for (const step of steps) if (!signal.aborted) await step(signal);
    },
  };
}

/** What a crash left half done: creations and rebuilds without an end. */
async function undoInterrupted({ store, updateStore, incarnations, log }: ReconcilerOptions): Promise<void> {
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
}

/** Looks at every instance of the host and its record; resolves with how many serve a DEPLOYED sandbox. */
function createComparison(options: ReconcilerOptions): (signal: AbortSignal) => Promise<number> {
  const { host, agreementStore, restoreGuard, updateStore, incarnations, deleteInstances, log } = options;
  const losses = createLosses(options);

  const compareOwner = async (owner: Owner): Promise<void> => {
    const live = host.instanceStatus(owner.instanceId);
    if (live === undefined) return;
    if (owner.status === "FAILED") await losses.takeBack(owner);
    // The failures that a host reports are kept, since they would go with the instance.
    if (owner.status === "DEPLOYED" && live.errors.length > 0) await losses.keep(owner, live.errors);
  };

  return async (signal) => {
    // In this order: an instance that is found here and becomes a sandbox's own meanwhile is seen by one of the two questions.
    const found = host.listInstances().map(({ instanceId }) => instanceId);
    const rebuilding = await updateStore.listRebuilding();
    const owned = new Set(rebuilding.map(({ nextInstanceId }) => nextInstanceId));
    let deployed = 0;
    for await (const owners of agreementStore.findOwners(found)) {
      for (const owner of owners) {
        owned.add(owner.instanceId);
        if (owner.status === "DEPLOYED") deployed++;
        await compareOwner(owner);
      }
    }
    // A record is written before its instance is made, so an instance without a record belongs to nobody, if the records are all there.
    const orphans = found.filter((instanceId) => !owned.has(instanceId) && !incarnations.isNeeded(instanceId));
    await deleteInstances(await restoreGuard.admit(orphans), signal, async (instanceId) =>
      log.warn({ instanceId }, "an instance without a sandbox was deleted"),
    );
    return deployed;
  };
}

/** Records that are looked at in one pass, once the start has found all there was to find. */
const lostSearchMax = 5_000;

/** Finds DEPLOYED sandboxes without an instance: nothing to find while there are as many as instances that serve one. */
function createLostSearch({ host, store, agreementStore, incarnations, log }: ReconcilerOptions) {
  const losses = createLosses({ store, log });
  let isFirst = true;
  let after = "";
  return async (served: number, signal: AbortSignal): Promise<void> => {
    if ((await agreementStore.countDeployed()) === served) {
      isFirst = false;
      return;
    }
    let left = isFirst ? Number.POSITIVE_INFINITY : lostSearchMax;
    for await (const owned of walk(store, ["DEPLOYED"], after)) {
      for (const one of owned) {
        const isLost = host.instanceStatus(one.instanceId) === undefined && !incarnations.isRunning(one.id);
        if (isLost) await losses.fail(one);
      }
      after = owned.at(-1)?.id ?? "";
      left -= owned.length;
      if (signal.aborted || left <= 0) return;
      await nextTurn();
    }
    isFirst = false;
    after = "";
  };
}

/** Every sandbox in one of the statuses, in chunks; what changes during the walk is seen or not, and the next pass sees it. */
async function* walk(
  store: SandboxStore,
  statuses: Parameters<SandboxStore["listOwned"]>[0],
  from = "",
): AsyncGenerator<OwnedInstances[]> {
  for (let after = from; ; ) {
    const owned = await store.listOwned(statuses, after, chunk);
    if (owned.length > 0) yield owned;
    if (owned.length < chunk) return;
    after = owned.at(-1)!.id;
  }
}
