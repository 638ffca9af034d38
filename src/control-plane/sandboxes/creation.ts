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
import type { PolicyService } from "../policies/service.ts";
import type { QuotaLimits, Quotas } from "../quotas/service.ts";
import type { CreationStore, KeyedRequest } from "./creation-store.ts";
import { type Draft, draftSandbox } from "./draft.ts";
import { connectionsOf, type Environments, requireReferences } from "./environment.ts";
import type { Incarnations } from "./incarnations.ts";
import type { Presenter } from "./present.ts";
import type { SandboxRecord } from "./record.ts";
import { Replays } from "./replays.ts";
import type { SandboxStore } from "./store.ts";

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
  environments: Environments;
  incarnations: Incarnations;
  quotas: Quotas;
  policies: Pick<PolicyService, "requireAllowed">;
  store: SandboxStore;
  creationStore: CreationStore;
  presenter: Presenter;
  log: Logger;
  /** Asks for pending deletions to be finished soon. */
  poke: () => void;
};

type Plan = { draft: Draft; limits: QuotaLimits };

export class Creations {
  readonly #options: CreationOptions;
  readonly #replays: Replays;

  constructor(options: CreationOptions) {
    this.#options = options;
    this.#replays = new Replays(options);
  }

  async create(request: CreateRequest): Promise<Sandbox> {
    const { caller, input, reuse, idempotencyKey, timing } = request;
    const { config, quotas } = this.#options;
    const limits = await quotas.limitsOf(caller.workspaceId);
    const draft = draftSandbox(input, { ...config, retentionMaxMs: limits.retentionMs });
    requireReferences(caller, draft.envs, []);
    if (idempotencyKey === undefined) return this.#createOrReuse({ draft, limits }, request, undefined);
    return this.#replays.once({ caller, key: idempotencyKey, request: { reuse, input }, timing }, (keyed) =>
      this.#createOrReuse({ draft, limits }, request, keyed),
    );
  }

  async #createOrReuse(plan: Plan, request: CreateRequest, keyed: KeyedRequest | undefined): Promise<Sandbox> {
    const { store, presenter, incarnations } = this.#options;
    const { caller, reuse } = request;
    const { draft } = plan;
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
        await incarnations.settled(existing.id);
        continue;
      }
      const created = await this.#createNamed(name, plan, request, keyed);
      if (created !== undefined) return created;
    }
    throw new AppError("conflict", "The name is held by a creation that has not ended.", {
      details: { reason: "CREATION_IN_PROGRESS" },
    });
  }

  #nameTaken(existing: SandboxRecord): AppError {
    const details: Record<string, unknown> = { code: "SANDBOX_ALREADY_EXISTS" };
    if (this.#options.incarnations.isRunning(existing.id) && existing.status === "DEPLOYING")
      details.reason = "CREATION_IN_PROGRESS";
    return new AppError("already_exists", `A sandbox with the name ${existing.name} exists.`, { details });
  }

  /** Undefined when the name was taken in the meantime. */
  async #createNamed(
    name: string,
    { draft, limits }: Plan,
    { caller, timing }: CreateRequest,
    keyed: KeyedRequest | undefined,
  ): Promise<Sandbox | undefined> {
    const { creationStore, environments, incarnations, policies } = this.#options;
    await policies.requireAllowed(caller.workspaceId);
    const { image, memoryMb, envs } = draft;
    const environment = await environments.resolve(envs, caller.workspaceId);
    const record = this.#newRecord(name, draft, caller);
    const { instanceId } = record;
    const incarnation = incarnations.begin(record);
    try {
      const terms = { keyed, connections: connectionsOf(envs), limits };
      const outcome = await timing.measure("store", () => creationStore.insert(record, terms));
      if (outcome.kind === "name_taken") return undefined;
      if (outcome.kind === "key_taken")
        throw new AppError("conflict", "The key is in use by a request that has not ended.");
      if (outcome.replaced) this.#options.poke();
      const { workspace } = caller;
      try {
        const request = { instanceId, workspace, sandboxName: name, image, memoryMb, environment };
        await incarnation.make(request, timing);
      } catch (error) {
        throw await this.#undo(record, error, incarnation.signal);
      }
      return await this.#complete(record, { caller, timing, keyed });
    } finally {
      incarnation.end();
    }
  }

  #newRecord(name: string, draft: Draft, caller: Caller): SandboxRecord {
    const id = randomToken(16);
    const now = new Date().toISOString();
    const { displayName, externalId, labels, spec, envs, retentionMs } = draft;
    return {
      id,
      instanceId: randomToken(16),
      nextInstanceId: undefined,
      workspaceId: caller.workspaceId,
      name,
      revision: 1,
      status: "DEPLOYING",
      displayName,
      externalId,
      labels,
      spec,
      sealedEnvs: this.#options.environments.seal(envs, id),
      errors: [],
      createdAt: now,
      updatedAt: now,
      createdBy: caller.principalName,
      updatedBy: caller.principalName,
      terminatedAt: undefined,
      retentionMs,
    };
  }

  async #complete(
    record: SandboxRecord,
    { caller, timing, keyed }: { caller: Caller; timing: Timing; keyed: KeyedRequest | undefined },
  ): Promise<Sandbox> {
    const { creationStore, presenter } = this.#options;
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
    const error = explainImage(toAppError(cause), record.spec.runtime?.image, host);
    if (error.status >= 500) {
      log.error({ sandbox: record.name, instanceId: record.instanceId, err: cause }, "a sandbox could not be created");
    }
    return error;
  }
}

/** A refused image is answered with what could be asked for. */
export function explainImage(error: AppError, image: string | undefined, host: Host): AppError {
  if (error.details?.code !== "INVALID_IMAGE") return error;
  const details = { ...error.details, requested_image: image, supported_images: host.listImages() };
  return new AppError(error.code, error.message, { details });
}

function deletedMeanwhile({ name }: SandboxRecord): AppError {
  return new AppError("conflict", `The sandbox ${name} was deleted while it was being created.`, {
    details: { code: "SANDBOX_DELETED" },
  });
}
