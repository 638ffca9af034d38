// Rules for quotas: what the installation gives every workspace, unless the operator gave this one something else.
import { type Quota, type QuotaType, quotaTypes } from "../../contract/quota.ts";
import type { ControlPlaneConfig } from "../config.ts";
import type { QuotaStore } from "./store.ts";

export type QuotaLimits = { sandboxes: number; memoryMb: number; retentionMs: number };

export type Quotas = ReturnType<typeof createQuotas>;

export type QuotaDefaults = Pick<ControlPlaneConfig, "sandboxesMax" | "workspaceMemoryMaxMb" | "retentionMaxMs">;

export function createQuotas({ store, config }: { store: QuotaStore; config: QuotaDefaults }) {
  const defaults: Record<QuotaType, number> = {
    sandboxes: config.sandboxesMax,
    memory: config.workspaceMemoryMaxMb,
    terminatedRetention: Math.floor(config.retentionMaxMs / 1_000),
  };
  const valuesOf = async (workspaceId: string): Promise<Record<QuotaType, number>> => {
    return { ...defaults, ...(await store.findOverrides(workspaceId)) };
  };
  return {
    async limitsOf(workspaceId: string): Promise<QuotaLimits> {
      const { sandboxes, memory, terminatedRetention } = await valuesOf(workspaceId);
      return { sandboxes, memoryMb: memory, retentionMs: terminatedRetention * 1_000 };
    },

    async list(workspaceId: string): Promise<Quota[]> {
      const values = await valuesOf(workspaceId);
      return quotaTypes.map((resourceType) => ({ resourceType, value: values[resourceType] }));
    },

    /** Without a value the installation's applies again. What a workspace has already is left to it. */
    async change(workspaceId: string, resourceType: QuotaType, value: number | undefined): Promise<void> {
      if (value === undefined) await store.remove(workspaceId, resourceType);
      else await store.set(workspaceId, resourceType, value);
    },
  };
}
