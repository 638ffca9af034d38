// Updates sandboxes: what can change under a running instance does so at once; anything else makes a new instance beside the old one,
// which serves until the new one does. An update ends whole, or the sandbox is what it was.
import type { Host } from "../../contract/host.ts";
import type { Sandbox, SandboxInput } from "../../contract/sandbox.ts";
import { allows } from "../../contract/sandbox-status.ts";
import { AppError, toAppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import type { Logger } from "../../core/log.ts";
import type { Timing } from "../../core/timing.ts";
import type { Caller } from "../auth/caller.ts";
import type { ControlPlaneConfig } from "../config.ts";
import type { QuotaLimits, Quotas } from "../quotas/service.ts";
import { explainImage } from "./creation.ts";
import type { DeleteInstances } from "./deletions.ts";
import type { Draft } from "./draft.ts";
import { connectionsOf, type Environments, requireReferences } from "./environment.ts";
import { mergeFailures } from "./failures.ts";
import type { Incarnations } from "./incarnations.ts";
import type { Presenter } from "./present.ts";
import type { SandboxRecord } from "./record.ts";
import type { SandboxStore } from "./store.ts";
import { planUpdate, type UpdatePlan } from "./update-plan.ts";
import type { Changes, UpdateStore } from "./update-store.ts";

/** How many updates of one sandbox wait for each other. */
const waitingMax = 16;
const attemptsMax = 5;

export type UpdateRequest = { caller: Caller; name: string; input: SandboxInput; timing: Timing };

export type UpdateOptions = {
  config: ControlPlaneConfig;
  host: Host;
  environments: Environments;
  incarnations: Incarnations;
  quotas: Quotas;
  store: SandboxStore;
  updateStore: UpdateStore;
  presenter: Presenter;
  deleteInstances: DeleteInstances;
  log: Logger;
};

type Queue = { last: Promise<unknown>; waiting: number };

export class Updates implements AsyncDisposable {
  readonly #options: UpdateOptions;
  /** Updates of one sandbox happen one after the other, by its id. */
  readonly #queues = new Map<string, Queue>();
  readonly #stop = new AbortController();

  constructor(options: UpdateOptions) {
    this.#options = options;
  }

  /** `record` is the sandbox as the caller named it: by the time its turn comes it may be another or gone. */
  async update({ id }: SandboxRecord, request: UpdateRequest): Promise<Sandbox> {
    const queue = this.#queues.get(id) ?? { last: Promise.resolve(), waiting: 0 };
    if (queue.waiting >= waitingMax) throw inProgress("Too many updates of the sandbox wait for each other.");
    queue.waiting++;
    this.#queues.set(id, queue);
    const turn = queue.last.then(() => this.#update(id, request));
    queue.last = turn
      .catch(() => undefined)
      .then(() => {
        queue.waiting--;
        if (queue.waiting === 0) this.#queues.delete(id);
      });
    return turn;
  }

  /** What waits is refused; what is under way ends with its instance, see Incarnations. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
  }

  async #update(id: string, request: UpdateRequest): Promise<Sandbox> {
    const { config, quotas, store, environments } = this.#options;
    const { caller, input, timing } = request;
    const limits = await quotas.limitsOf(caller.workspaceId);
    for (let attempt = 1; attempt <= attemptsMax; attempt++) {
      if (this.#stop.signal.aborted) throw new AppError("unavailable", "The platform is stopping.");
      const record = await timing.measure("store", () => store.findById(id));
      requireUpdatable(record);
      const present = environments.open(record);
      const plan = planUpdate(record, present, input, { ...config, retentionMaxMs: limits.retentionMs });
      requireReferences(caller, plan.draft.envs, present);
      const updated = await (plan.rebuild
        ? this.#rebuild(record, plan, request, limits)
        : this.#apply(record, plan, request));
      if (updated !== undefined) return this.#present(updated, caller);
    }
    throw inProgress("The sandbox is being changed by others; try again.");
  }

  async #present(record: SandboxRecord, caller: Caller): Promise<Sandbox> {
    const { presenter, store } = this.#options;
    return presenter.present(record, caller, await store.findEvents(record.id));
  }

  #apply(
    record: SandboxRecord,
    { draft }: UpdatePlan,
    { caller, timing }: UpdateRequest,
  ): Promise<SandboxRecord | undefined> {
    return timing.measure("store", () => this.#options.updateStore.apply(record, this.#changes(record, draft, caller)));
  }

  #changes({ id }: SandboxRecord, draft: Draft, { principalName }: Caller): Changes {
    const { displayName, externalId, labels, spec, envs, retentionMs } = draft;
    const sealedEnvs = this.#options.environments.seal(envs, id);
    return { displayName, externalId, labels, spec, sealedEnvs, retentionMs, updatedBy: principalName };
  }

  /** Undefined when the sandbox has changed since it was read. */
  async #rebuild(
    record: SandboxRecord,
    { draft }: UpdatePlan,
    { caller, timing }: UpdateRequest,
    limits: QuotaLimits,
  ): Promise<SandboxRecord | undefined> {
    const { environments, incarnations, updateStore } = this.#options;
    const { image, memoryMb, envs } = draft;
    if (record.nextInstanceId !== undefined || incarnations.isRunning(record.id)) {
      throw inProgress("The sandbox is being rebuilt; try again when that has ended.");
    }
    const environment = await environments.resolve(envs, caller.workspaceId);
    const instanceId = randomToken(16);
    const incarnation = incarnations.begin({ id: record.id, instanceId });
    try {
      const next = { instanceId, memoryMb, connections: connectionsOf(envs) };
      if (!(await timing.measure("store", () => updateStore.begin(record, next, limits)))) return undefined;
      try {
        const request = {
          instanceId,
          workspace: caller.workspace,
          sandboxName: record.name,
          image,
          memoryMb,
          environment,
        };
        await incarnation.make(request, timing);
      } catch (error) {
        throw await this.#giveUp(record, instanceId, { cause: error, image, signal: incarnation.signal });
      }
      const errors = this.#failuresOf(record);
      const changes = { ...this.#changes(record, draft, caller), errors };
      const switched = await timing.measure("store", () => updateStore.switchOver(record.id, next, changes));
      if (switched === undefined) {
        this.#discard(instanceId);
        throw deletedMeanwhile(record);
      }
      incarnations.drain(record.instanceId, () => this.#discard(record.instanceId));
      return switched;
    } finally {
      incarnation.end();
    }
  }

  /** What the instance that goes has reported is kept. */
  #failuresOf({ errors, instanceId }: SandboxRecord): SandboxRecord["errors"] {
    return mergeFailures(errors, this.#options.host.instanceStatus(instanceId)?.errors ?? []);
  }

  /** The error to answer with, once the sandbox is what it was. */
  async #giveUp(
    record: SandboxRecord,
    instanceId: string,
    { cause, image, signal }: { cause: unknown; image: string; signal: AbortSignal },
  ): Promise<AppError> {
    const { updateStore, store, host, log } = this.#options;
    const given = await updateStore.giveUp(record.id, instanceId);
    this.#discard(instanceId);
    const now = await store.findById(record.id);
    if (!given || now === undefined || !allows(now.status, "update")) return deletedMeanwhile(record);
    const error = signal.aborted
      ? new AppError("unavailable", "The new instance was not ready in time; the sandbox is what it was.", {
          details: { code: "UPDATE_TIMEOUT" },
        })
      : explainImage(toAppError(cause), image, host);
    if (error.status < 500) return error;
    log.error({ sandbox: record.name, instanceId, err: cause }, "a sandbox could not be rebuilt");
    const message = "The sandbox could not be rebuilt and runs on as it was";
    const failure = {
      code: "REBUILD_FAILED",
      fatal: false,
      instance: instanceId,
      message,
      time: new Date().toISOString(),
    };
    await store.recordFailures(now, mergeFailures(now.errors, [failure]));
    return error;
  }

  /** Not waited for: the reconciler finds what is left of it. */
  #discard(instanceId: string): void {
    const { deleteInstances, log } = this.#options;
    deleteInstances([instanceId], this.#stop.signal, async () => undefined).catch((error: unknown) => {
      log.error({ instanceId, err: error }, "a replaced instance could not be deleted; it is tried again");
    });
  }
}

function requireUpdatable(record: SandboxRecord | undefined): asserts record is SandboxRecord {
  if (record === undefined || record.status === "TERMINATED") {
    throw new AppError("not_found", "The sandbox is gone already.");
  }
  if (allows(record.status, "update")) return;
  throw new AppError("conflict", `The sandbox is ${record.status} and cannot be updated.`, {
    details: { code: "SANDBOX_NOT_UPDATABLE" },
  });
}

function inProgress(message: string): AppError {
  return new AppError("conflict", message, { details: { code: "UPDATE_IN_PROGRESS" } });
}

function deletedMeanwhile({ name }: SandboxRecord): AppError {
  return new AppError("conflict", `The sandbox ${name} was deleted while it was being updated.`, {
    details: { code: "SANDBOX_DELETED" },
  });
}
