// Creates sandboxes: records one, has the host make its instance, completes the record. A creation ends whole or leaves nothing.
import type { Host } from "../../contract/host.ts";
import type { Sandbox, SandboxInput } from "../../contract/sandbox.ts";
import { allows } from "../../contract/sandbox-status.ts";
import { AppError, toAppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import type { Logger } from "../../core/log.ts";
import { generateName } from "../../core/names.ts";
import type { SealKey } from "../../core/seal.ts";
import type { Timing } from "../../core/timing.ts";
import type { Caller } from "../auth/caller.ts";
import type { ControlPlaneConfig } from "../config.ts";
import type { CreationStore, KeyedRequest } from "./creation-store.ts";
import { type Draft, draftSandbox } from "./draft.ts";
import { envsOf, type Presenter } from "./present.ts";
import type { SandboxRecord } from "./record.ts";
import { Replays } from "./replays.ts";
import type { SandboxStore } from "./store.ts";

/** How long an aborted creation may take to settle before the caller is answered without it. */
const abortGraceMs = 5_000;
const nameAttemptsMax = 5;

export type CreateRequest = {
  caller: Caller;
  input: SandboxInput;
  /** Answer with a usable sandbox of that name, if there is one. */
  reuse: boolean;
  idempotencyKey: string | undefined;
  timing: Timing;
};

export type CreationOptions = {
  config: ControlPlaneConfig;
  host: Host;
  sealKey: SealKey;
  store: SandboxStore;
  creationStore: CreationStore;
  presenter: Presenter;
  log: Logger;
  /** Asks for pending deletions to be finished soon. */
  poke: () => void;
};

type Running = { abort: AbortController; settled: Promise<unknown> };

export class Creations implements AsyncDisposable {
  readonly #options: CreationOptions;
  readonly #replays: Replays;
  /** Creations between their first record and the moment the host is done with them, by sandbox id. */
  readonly #running = new Map<string, Running>();

  constructor(options: CreationOptions) {
    this.#options = options;
    this.#replays = new Replays(options);
  }

  isRunning(sandboxId: string): boolean {
    return this.#running.has(sandboxId);
  }

  /** Ends a creation early, because the sandbox is being deleted. */
  abort(sandboxId: string): void {
    this.#running.get(sandboxId)?.abort.abort();
  }

  create(request: CreateRequest): Promise<Sandbox> {
    const { caller, input, reuse, idempotencyKey, timing } = request;
    const draft = draftSandbox(input, this.#options.config);
    if (idempotencyKey === undefined) return this.#createOrReuse(draft, request, undefined);
    return this.#replays.once({ caller, key: idempotencyKey, request: { reuse, input }, timing }, (keyed) =>
      this.#createOrReuse(draft, request, keyed),
    );
  }

  /** Aborts what is under way and waits, within a bound, until it is undone. */
  async [Symbol.asyncDispose](): Promise<void> {
    const running = [...this.#running.values()];
    for (const { abort } of running) abort.abort();
    await within(Promise.allSettled(running.map(({ settled }) => settled)), 2 * abortGraceMs);
  }

  async #createOrReuse(draft: Draft, request: CreateRequest, keyed: KeyedRequest | undefined): Promise<Sandbox> {
    const { store, presenter, config } = this.#options;
    const { caller, reuse } = request;
    for (let attempt = 1; attempt <= nameAttemptsMax; attempt++) {
      const name = draft.name ?? generateName("sandbox");
      const existing = await store.findByName(caller.workspaceId, name);
      if (existing !== undefined && allows(existing.status, "hold_name")) {
        if (draft.name === undefined) continue;
        if (!reuse) throw this.#nameTaken(existing);
        if (allows(existing.status, "reuse")) {
          return presenter.present(existing, caller, await store.findEvents(existing.id));
        }
        // Another creation of the name is under way: its outcome decides.
        await this.#waitFor(existing);
        continue;
      }
      if ((await store.countHeld(caller.workspaceId)) >= config.sandboxesMax) throw quotaExceeded(config.sandboxesMax);
      const created = await this.#createNamed(name, draft, request, keyed);
      if (created !== undefined) return created;
    }
    throw new AppError("conflict", "The name is held by a creation that has not ended.", {
      details: { reason: "CREATION_IN_PROGRESS" },
    });
  }

  #nameTaken(existing: SandboxRecord): AppError {
    const details: Record<string, unknown> = { code: "SANDBOX_ALREADY_EXISTS" };
    if (this.isRunning(existing.id)) details.reason = "CREATION_IN_PROGRESS";
    return new AppError("already_exists", `A sandbox with the name ${existing.name} exists.`, { details });
  }

  async #waitFor({ id }: SandboxRecord): Promise<void> {
    const running = this.#running.get(id);
    if (running !== undefined) await within(running.settled, this.#options.config.createTimeoutMs);
  }

  /** Undefined when the name was taken in the meantime. */
  async #createNamed(
    name: string,
    draft: Draft,
    { caller, timing }: CreateRequest,
    keyed: KeyedRequest | undefined,
  ): Promise<Sandbox | undefined> {
    const { creationStore } = this.#options;
    const record = this.#newRecord(name, draft, caller);
    // Registered first: a reconciliation must not take the record for one left behind by a crash.
    const abort = new AbortController();
    let settle = (): void => undefined;
    const settled = new Promise<void>((resolve) => {
      settle = resolve;
    });
    this.#running.set(record.id, { abort, settled });
    const finish = (): void => {
      this.#running.delete(record.id);
      settle();
      // Deleted meanwhile: the reconciler has waited for this.
      if (abort.signal.aborted) this.#options.poke();
    };
    let hostDone: Promise<unknown> = Promise.resolve();
    try {
      const outcome = await timing.measure("store", () => creationStore.insert(record, keyed));
      if (outcome.kind === "name_taken") return undefined;
      if (outcome.kind === "key_taken")
        throw new AppError("conflict", "The key is in use by a request that has not ended.");
      if (outcome.replaced) this.#options.poke();
      const making = this.#makeInstance(record, draft, caller, { abort, timing });
      hostDone = making.done;
      return await this.#complete(record, making, { caller, timing, keyed });
    } finally {
      // A host that has not let go of an aborted creation keeps it registered, and away from the reconciler.
      hostDone.then(finish, finish);
    }
  }

  #newRecord(name: string, draft: Draft, caller: Caller): SandboxRecord {
    const id = randomToken(16);
    const now = new Date().toISOString();
    const { displayName, externalId, labels, spec, envs, retentionMs } = draft;
    return {
      id,
      workspaceId: caller.workspaceId,
      name,
      revision: 1,
      status: "DEPLOYING",
      displayName,
      externalId,
      labels,
      spec,
      sealedEnvs: envs.length === 0 ? undefined : this.#options.sealKey.seal(JSON.stringify(envs), envsOf(id)),
      errors: [],
      createdAt: now,
      updatedAt: now,
      createdBy: caller.principalName,
      updatedBy: caller.principalName,
      terminatedAt: undefined,
      retentionMs,
    };
  }

  /** `ready` rejects no later than the deadline and a grace; `done` fulfils when the host has let go, however late. */
  #makeInstance(
    { id, name }: SandboxRecord,
    { image, memoryMb, envs }: Draft,
    { workspace }: Caller,
    { abort, timing }: { abort: AbortController; timing: Timing },
  ): Making {
    const { host, config } = this.#options;
    const environment = Object.fromEntries(envs.map(({ name, value }) => [name, value ?? ""]));
    const deadline = setTimeout(() => abort.abort(), config.createTimeoutMs);
    const made = host.createInstance(
      { instanceId: id, workspace, sandboxName: name, image, memoryMb, environment },
      { signal: abort.signal, timing },
    );
    const done = made.then(
      () => clearTimeout(deadline),
      () => clearTimeout(deadline),
    );
    return { ready: Promise.race([made, rejectAfterAbort(abort.signal)]), done, signal: abort.signal };
  }

  async #complete(
    record: SandboxRecord,
    { ready, signal }: Making,
    { caller, timing, keyed }: { caller: Caller; timing: Timing; keyed: KeyedRequest | undefined },
  ): Promise<Sandbox> {
    const { creationStore, presenter } = this.#options;
    try {
      await ready;
    } catch (error) {
      throw await this.#undo(record, error, signal);
    }
    const sandbox = await timing.measure("store", () =>
      creationStore.complete(
        record.id,
        (completed, events) => presenter.present(completed, caller, events),
        keyed && ((answer) => this.#replays.seal(answer, caller, keyed.key)),
      ),
    );
    if (sandbox === undefined) throw deletedMeanwhile(record);
    return sandbox;
  }

  /** The error to answer with, once no record is left. What a host may still have of it, the reconciler removes. */
  async #undo(record: SandboxRecord, cause: unknown, signal: AbortSignal): Promise<AppError> {
    const { store, host, log } = this.#options;
    if (!(await store.remove(record.id, "DEPLOYING"))) return deletedMeanwhile(record);
    if (signal.aborted) {
      return new AppError("unavailable", "The sandbox was not ready in time.", {
        details: { code: "CREATION_TIMEOUT" },
      });
    }
    const error = toAppError(cause);
    if (error.details?.code === "INVALID_IMAGE") {
      const details = { requested_image: record.spec.runtime?.image, supported_images: host.listImages() };
      return new AppError(error.code, error.message, { details: { ...error.details, ...details } });
    }
    if (error.status >= 500) {
      log.error({ sandbox: record.name, instanceId: record.id, err: cause }, "a sandbox could not be created");
    }
    return error;
  }
}

type Making = { ready: Promise<void>; done: Promise<void>; signal: AbortSignal };

/** Rejects some time after the abort: a host that reacts to it settles first. */
function rejectAfterAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const give = (): void => {
      setTimeout(() => reject(new Error("the host has not let go in time")), abortGraceMs).unref();
    };
    if (signal.aborted) give();
    else signal.addEventListener("abort", give, { once: true });
  });
}

/** Resolves when `work` does or the time is over, whichever comes first. */
async function within(work: Promise<unknown>, timeoutMs: number): Promise<void> {
  const timer = Promise.withResolvers<void>();
  const timeout = setTimeout(timer.resolve, timeoutMs);
  await Promise.race([work, timer.promise]);
  clearTimeout(timeout);
}

function deletedMeanwhile({ name }: SandboxRecord): AppError {
  return new AppError("conflict", `The sandbox ${name} was deleted while it was being created.`, {
    details: { code: "SANDBOX_DELETED" },
  });
}

function quotaExceeded(max: number): AppError {
  return new AppError("invalid_request", `The workspace has its most sandboxes: ${max}.`, {
    details: { code: "QUOTA_EXCEEDED" },
  });
}
