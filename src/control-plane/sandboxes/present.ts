// What callers see of a sandbox: the record, what its host says right now, and its address; secret values masked.
import { type AddressSettings, formatSandboxUrl } from "../../contract/address.ts";
import type { Host } from "../../contract/host.ts";
import type { CoreEvent } from "../../contract/metadata.ts";
import { nodeGeneration, type Sandbox } from "../../contract/sandbox.ts";
import { type Env, secretMask } from "../../contract/sandbox-spec.ts";
import { allows } from "../../contract/sandbox-status.ts";
import type { Caller } from "../auth/caller.ts";
import type { Environments } from "./environment.ts";
import { mergeFailures } from "./failures.ts";
import type { SandboxRecord } from "./record.ts";

export type PresenterOptions = { host: Host; environments: Environments; address: AddressSettings; region: string };

/** The part that changes without the record: what the host says. */
export type LiveSandbox = Required<Pick<Sandbox, "errors">> & Pick<Sandbox, "state" | "lastUsedAt">;

export type Presenter = ReturnType<typeof createPresenter>;

export function createPresenter({ host, environments, address, region }: PresenterOptions) {
  /** The part that stays the same until the record changes. */
  const presentRecord = (record: SandboxRecord, caller: Caller, showSecrets = false): Sandbox => {
    const { spec } = record;
    const envs = environments.show(record);
    return {
      metadata: {
        name: record.name,
        displayName: record.displayName,
        externalId: record.externalId,
        labels: record.labels,
        createdAt: record.createdAt,
        updatedAt: record.updatedAt,
        createdBy: record.createdBy,
        updatedBy: record.updatedBy,
        url: formatSandboxUrl(address, {
          workspace: caller.workspace,
          workspaceId: record.workspaceId,
          sandboxName: record.name,
          region,
        }),
        workspace: caller.workspace,
      },
      spec:
        envs.length === 0
          ? spec
          : { ...spec, runtime: { ...spec.runtime, envs: showSecrets ? envs : envs.map(maskSecret) } },
      status: record.status,
      nodeGeneration,
    };
  };

  const presentLive = (record: SandboxRecord): LiveSandbox => {
    const live = allows(record.status, "connect") ? host.instanceStatus(record.instanceId) : undefined;
    if (live === undefined) return { errors: [...record.errors] };
    return { state: live.state, lastUsedAt: live.lastUsedAt, errors: [...mergeFailures(record.errors, live.errors)] };
  };

  return {
    presentRecord,
    presentLive,
    /** As list items show it: without `errors` and `events`. */
    presentItem(record: SandboxRecord, caller: Caller): Sandbox {
      const { state, lastUsedAt } = presentLive(record);
      return { ...presentRecord(record, caller), state, lastUsedAt };
    },
    present(record: SandboxRecord, caller: Caller, events: CoreEvent[], showSecrets = false): Sandbox {
      return { ...presentRecord(record, caller, showSecrets), events, ...presentLive(record) };
    },
  };
}

/** A reference stays one: nobody is shown what it refers to. */
function maskSecret(env: Env): Env {
  return env.secret && env.valueFrom === undefined ? { ...env, value: secretMask } : env;
}
